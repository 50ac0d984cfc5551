// The scaling rule: exact values, and simulated days.
#include "scale/rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <random>

#include "scale/simulation.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

int workers(const ScaleLoad& load, const ScaleOptions& options) {
  return raw_workers({&load, 1}, slots_needed({&load, 1}, options), options);
}
ScaleLoad waiting(double jobs, double mean_s = 2) {
  ScaleLoad load{.mean_s = mean_s};
  load.ready = jobs;
  return load;
}

// -- simulated days of workers with 4 slots that take 20 s to start

constexpr int kDay = 86'400;

std::vector<int> day(const std::string& kind, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> out;
  std::normal_distribution<double> noise(0, 1);
  for (int t = 0; t < kDay; ++t) {
    const double h = t / 3600.0;
    double rate = 0;
    if (kind == "office")
      rate = 0.3 + (h >= 7 && h <= 19 ? 9 * std::max(0.0, std::sin(M_PI * (h - 7) / 12)) : 0);
    if (kind == "spikes") {
      const auto near = [&](double at) { return std::abs(t - at * 3600) < 60; };
      rate = 1 + (near(9) || near(13.5) || near(20) ? 60 : 0);
    }
    if (kind == "nightly") rate = 0.5;
    if (kind == "sine") rate = 5 + 4 * std::sin(2 * M_PI * t / 3600) + noise(random);
    if (kind == "evening") rate = h >= 20 && h < 23 ? 8 : 0;
    std::poisson_distribution<int> jobs(std::max(rate, 1e-12));
    out.push_back(rate <= 0 ? 0 : jobs(random));
    if (kind == "nightly" && t == 9000) out.back() += 5000;
  }
  return out;
}

SimulationOptions simulated(const std::string& kind, std::uint64_t seed) {
  SimulationOptions options;
  options.scale = {.target = 30s, .slots = 4, .min = 0, .max = 40, .lead = 20s, .hold = 5min};
  options.run_time = [spread = std::lognormal_distribution<double>(std::log(2.0) - 0.5, 1.0)](
                         Draws& random) mutable { return spread(random); };
  options.seed = seed + 99;
  if (kind == "nightly") options.waves = {{9000, 5000}};
  return options;
}

// KEDA with the defaults of its SQS scaler: 5 messages per replica, with those in flight; read
// every 30 s; the autoscaler acts every 15 s with a tolerance of 10 % and holds for 300 s.
SimulatedRule keda() {
  struct State {
    int read = 0;
    std::deque<std::pair<int, int>> last;
    int empty_since = -1;
  };
  return [state = std::make_shared<State>()](const SimulatedPool& pool) {
    if (pool.now % 30 == 0) state->read = pool.ready + pool.running;
    if (pool.now % 15 != 0) return pool.total;
    const int total = std::max(1, pool.total);
    int wanted = (state->read + 4) / 5;
    if (pool.total > 0 && std::abs(double(state->read) / total / 5 - 1) <= 0.1) wanted = pool.total;
    state->last.emplace_back(pool.now, state->read > 0 ? std::max(1, wanted) : wanted);
    while (state->last.front().first < pool.now - 300) state->last.pop_front();
    if (wanted > pool.total) return std::min(wanted, std::max(pool.total * 2, pool.total + 4));
    int top = 0;
    for (const auto& [at, value] : state->last) top = std::max(top, value);
    if (state->read > 0) {
      state->empty_since = -1;
    } else if (state->empty_since < 0) {
      state->empty_since = pool.now;
    } else if (pool.now - state->empty_since >= 300) {
      return 0;
    }
    return std::min(pool.total, std::max(1, top));
  };
}

}  // namespace

TEST_CASE("an empty queue needs no worker, a waiting job one, and a running job keeps one") {
  CHECK(workers({}, {}) == 0);
  CHECK(workers(waiting(1, 0), {}) == 1);
  ScaleLoad running;
  running.running = 1;
  CHECK(workers(running, {}) == 1);
}

TEST_CASE("work of target times slots needs exactly one worker more at each step") {
  const ScaleOptions options{.target = 30s, .slots = 4};
  CHECK(workers(waiting(60), options) == 1);  // 120 s of work
  CHECK(workers(waiting(61), options) == 2);
  CHECK(workers(waiting(120), options) == 2);
  ScaleLoad costly = waiting(60);
  costly.cost = 3;
  CHECK(workers(costly, options) == 3);
}

TEST_CASE("arrivals are planned at 85 % use, and the backlog comes on top") {
  const ScaleOptions options{.target = 30s, .slots = 1};
  ScaleLoad load{.arrivals_per_s = 1.7, .mean_s = 1};
  CHECK(workers(load, options) == 2);
  load.ready = 60;
  CHECK(workers(load, options) == 4);  // 1.7 + 2
}

TEST_CASE("jobs due within the lead count as if they waited") {
  ScaleLoad load{.mean_s = 2};
  load.due = 5000;
  CHECK(workers(load, {.target = 30s, .slots = 4}) == 84);  // 10,000 s in 30 s
  CHECK(workers(waiting(5000), {.target = 30s, .slots = 4}) == 84);
}

TEST_CASE("10,000 jobs held by a limit of 5 ask for two workers of 4 slots, and no job for none") {
  ScaleLoad load = waiting(10'000);
  load.cap = 5;
  CHECK(workers(load, {.slots = 4, .max = 40}) == 2);
  load.cap = 0;
  CHECK(workers(load, {.slots = 4, .max = 40}) == 0);
}

TEST_CASE("a limit of one queue does not hold back another") {
  std::vector<ScaleLoad> queues{waiting(10'000), waiting(600)};
  queues[0].cap = 4;
  const ScaleOptions options{.target = 30s, .slots = 4};
  CHECK(raw_workers(queues, slots_needed(queues, options), options) == 11);
}

TEST_CASE("a pool grows at once, and falls after the hold by a quarter every 30 s") {
  ScalePool pool;
  const ScaleOptions options{.min = 0, .max = 100, .hold = 5min};
  const Instant start = Instant() + 1h;
  CHECK(pool.desired(start, 16, 0, options) == 16);
  CHECK(pool.desired(start + 1s, 2, 0, options) == 16);
  CHECK(pool.falls_at() == start + 5min);
  CHECK(pool.desired(start + 5min, 2, 0, options) == 16);
  CHECK(pool.desired(start + 5min + 2s, 2, 0, options) == 12);
  CHECK(pool.falls_at() == start + 5min + 32s);
  CHECK(pool.desired(start + 5min + 31s, 2, 0, options) == 12);
  CHECK(pool.desired(start + 5min + 32s, 2, 0, options) == 9);
  CHECK(pool.desired(start + 10min, 2, 8, options) == 8);  // running jobs need 8
}

TEST_CASE("a pool that fell too early waits longer for small waves, and not for peaks") {
  const ScaleOptions options{.min = 0, .max = 100, .hold = 5min};
  const auto value_after = [&](int peak) {
    ScalePool pool;
    int value = 0;
    for (int s = 0; s < 3600; s += 2) {
      const Instant now = Instant() + 1h + std::chrono::seconds(s);
      // It falls to 4 and must grow again at 360 s; the wave or peak is then over at 420 s.
      const int raw = s < 20 ? 6 : s >= 360 && s < 420 ? peak : 4;
      value = pool.desired(now, raw, 0, options);
      if (s == 420 + 420) break;
    }
    return value;
  };
  CHECK(value_after(6) == 6);   // held for ten minutes
  CHECK(value_after(40) < 30);  // falls since five minutes
}

TEST_CASE("callers at different intervals get one value, within min and max") {
  ScalePool one, two;
  const ScaleOptions options{.min = 2, .max = 10, .hold = 1min};
  for (int t = 0; t < 600; ++t) {
    const Instant now = Instant() + std::chrono::seconds(t);
    const int raw = t < 100 ? 20 : t < 300 ? 7 : 0;
    const int value = one.desired(now, raw, 0, options);
    CHECK(value >= 2);
    CHECK(value <= 10);
    if (t % 15 != 0) continue;
    const int rare = two.desired(now, raw, 0, options);
    if (t <= 150 || t == 300 || t == 585) CHECK(rare == value);
  }
}

TEST_CASE("options of a pool name the value that is wrong") {
  CHECK(ScaleOptions{}.validate().has_value());
  CHECK(ScaleOptions{.min = 5, .max = 4}.validate().error().message == "min 5: must be 0 to 4");
  CHECK(ScaleOptions{.target = 10ms}.validate().error().field == "target");
  CHECK(ScaleOptions{.slots = 0}.validate().error().field == "slots");
}

TEST_CASE("pools share slots by need, each with its minimum and up to its maximum") {
  const auto shared = [](int slots, std::vector<SlotShare> pools) {
    return share_slots(slots, pools);
  };
  using Slots = std::vector<int>;
  CHECK(shared(8, {{1, 8, 30}, {1, 8, 10}}) == Slots{6, 2});
  CHECK(shared(8, {{0, 8, 3}, {0, 8, 2}}) == Slots{3, 2});
  CHECK(shared(8, {{0, 2, 30}, {0, 8, 10}}) == Slots{2, 6});
  CHECK(shared(2, {{2, 4, 0}, {2, 4, 9}}) == Slots{2, 0});
  CHECK(shared(0, {{0, 4, 9}}) == Slots{0});
}

TEST_CASE("the rule keeps its bars on days and seeds that it was not tuned with") {
  struct Bar {
    const char* kind;
    int most_p95;
    double of_keda;  // hours
  };
  for (const std::uint64_t seed : {11u, 12u}) {
    for (const Bar& bar : {Bar{"office", 30, 0.85},
                           {"spikes", 30, 0.8},
                           {"sine", 30, 0.85},
                           {"evening", 30, 0.85}}) {
      CAPTURE(bar.kind);
      const std::vector<int> arrivals = day(bar.kind, seed);
      const SimulationOptions options = simulated(bar.kind, seed);
      const auto ours = simulate_scaling(arrivals, options, scaling_rule(options));
      const auto theirs = simulate_scaling(arrivals, options, keda());
      CAPTURE(ours.p95_s);
      CAPTURE(ours.worker_hours);
      CAPTURE(theirs.worker_hours);
      CAPTURE(ours.turns);
      CAPTURE(theirs.turns);
      CHECK(ours.left < 200);  // of the last seconds
      CHECK(ours.p95_s <= bar.most_p95);
      CHECK(ours.late <= 0.01);
      CHECK(ours.worker_hours <= bar.of_keda * theirs.worker_hours);
      CHECK(ours.turns <= std::max(theirs.turns / 3, 14));  // few in the evening
      if (std::string(bar.kind) == "sine") CHECK(ours.fastest_turns <= 2);
    }
  }
}

TEST_CASE("a known wave waits as if all workers ran all day, and the target holds if max allows") {
  // 10,000 s of work take 62 s with all 160 slots of 40 workers: no rule keeps 30 s.
  for (const std::uint64_t seed : {11u, 12u}) {
    for (const int max : {40, 60}) {
      CAPTURE(max);
      const std::vector<int> arrivals = day("nightly", seed);
      SimulationOptions options = simulated("nightly", seed);
      options.scale.max = max;
      const auto ours = simulate_scaling(arrivals, options, scaling_rule(options));
      options.scale.min = max;
      const auto best =
          simulate_scaling(arrivals, options, [&](const SimulatedPool&) { return max; });
      CHECK(ours.p95_s <= best.p95_s + 1);
      CHECK(ours.late <= best.late + 0.001);
      CHECK(ours.worker_hours * 20 < best.worker_hours);
      CHECK(ours.turns <= 2);
      CHECK((ours.p95_s <= 30 && ours.late <= 0.01) == (max == 60));
    }
  }
}

}  // namespace mainspring
