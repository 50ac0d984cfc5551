// `why` agrees with claims. Over random histories, no gate held a job just before a claim returns
// it, and a claim that returns nothing leaves no job without a gate.
//
// Costs are left out: for a job after a heavy one, `why` says only that the job may wait for room.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "broker/explain.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

constexpr int kHistories = 40, kHeads = 120;

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory_ = mkdtemp(name);
    store_ = std::move(
        *open_sqlite_store({.directory = directory_, .reserve_bytes = 0}, clock_.now(), log_));
    broker_ = std::make_unique<Broker>(*store_, clock_, log_, registry_);
    one<Done>(PutBreaker{"bank", {.failures = 2, .open_for = 3s, .max_open_for = 6s}});
  }
  ~World() {
    broker_.reset();
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void head() {
    act();
    const std::map<JobId, Why> before = whys();
    const auto jobs =
        one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .kinds = {}, .max = 1}).jobs;
    if (jobs.empty()) {
      for (const auto& one : before) {  // clang 14 cannot capture bindings
        const Why& why = one.second;
        CHECK_MESSAGE(!is_free(why),
                      one.first << " is not returned: " << why.text << "; " << state());
      }
      return;
    }
    ++given;
    const auto said = before.find(jobs[0].id);
    REQUIRE(said != before.end());
    CHECK_MESSAGE(is_free(said->second), jobs[0].id << " is returned: " << said->second.text);
    running_.push_back(jobs[0]);
  }

  int given = 0;
  std::map<Gate, int> gates;  // how often each gate was named

 private:
  std::string state() const {
    const auto queues = store_->queues();
    const auto breaker = store_->breakers(clock_.now().wall);
    const QueueStats& q = queues->at(0);
    return fmt::format(
        "on \"{}\" paused {} fair {} ready {} running {} of {}, {} in all, breaker {} room {} "
        "probes {}, opens_at {}, now {}",
        q.limits.breaker, q.paused, q.limits.per_key.fair,
        q.counts[static_cast<std::size_t>(JobState::available)],
        q.counts[static_cast<std::size_t>(JobState::running)], q.limits.concurrency.value_or(-1),
        running_.size(), to_string(breaker->at(0).state), breaker->at(0).room,
        breaker->at(0).probes, q.opens_at ? format_wall_time(*q.opens_at) : "-",
        format_wall_time(clock_.now().wall));
  }
  static bool is_free(const Why& why) {
    return why.gate == Gate::claim || why.gate == Gate::no_worker || why.gate == Gate::busy_workers;
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }

  template <class T>
  T one(Operation operation) {
    OperationResult out;
    broker_->submit(std::move(operation), [&](OperationResult result) { out = std::move(result); });
    broker_->step(clock_.now());
    REQUIRE(std::holds_alternative<T>(out));
    return std::get<T>(std::move(out));
  }

  RateLimit a_rate() {
    return {.count = 1 + below(3),
            .per = std::chrono::seconds(1 + below(5)),
            .kind = static_cast<RateKind>(below(3)),
            .burst = 0};
  }
  void limit() {
    QueueLimits limits;
    if (one_in(2)) limits.concurrency = 1 + below(4);
    if (one_in(3)) limits.rate = a_rate();
    if (one_in(2)) limits.per_key.concurrency = 1 + below(2);
    if (one_in(3)) limits.per_key.rate = a_rate();
    if (one_in(3)) limits.per_key.fair = true;
    if (one_in(3)) limits.ageing = 1s;
    if (one_in(2)) limits.breaker = "bank";
    one<Done>(SetQueueLimits{"q", limits});
  }
  void finish() {
    if (running_.empty()) return;
    std::swap(running_[static_cast<std::size_t>(below(static_cast<int>(running_.size())))],
              running_.back());
    Outcome outcome = Complete{};
    if (one_in(3)) outcome = Retry{.error = "no", .after = 0s};
    one<FinishResult>(
        Finish{.worker = "w", .results = {{running_.back().id, running_.back().token, outcome}}});
    running_.pop_back();
  }
  void act() {
    switch (below(12)) {
      case 0:
        return limit();
      case 1:
        one<Done>(PauseQueue{.queue = "q", .paused = one_in(3)});
        return;
      case 2:
        if (one_in(2)) {
          one<Done>(OpenBreaker{"bank", 2s});
        } else {
          one<Done>(CloseBreaker{"bank"});
        }
        return;
      case 3:
      case 4:
        clock_.advance(std::chrono::milliseconds(below(3000)));
        one<StepResult>(OpenQueues{});  // as the leader does
        return;
      case 5:
      case 6:
      case 7:
        return finish();
      default: {
        NewJob job{.queue = "q", .kind = "k", .priority = below(3)};
        if (one_in(2)) job.limit_key = one_in(2) ? "acme" : "zeta";
        one<EnqueueResult>(Enqueue{.jobs = {job}});
      }
    }
  }
  // Over all jobs that could be returned.
  std::map<JobId, Why> whys() {
    std::map<JobId, Why> out;
    JobFilter filter;
    filter.state = JobState::available;
    const auto page = store_->list(filter, 1000, 0);
    REQUIRE(page.has_value());
    for (const Job& listed : page->jobs) {
      const auto job = store_->get(listed.id);
      REQUIRE(job.has_value());
      auto why = explain(*job, *store_, *broker_, clock_);
      REQUIRE(why.has_value());
      ++gates[why->gate];
      out.emplace(listed.id, std::move(*why));
    }
    return out;
  }

  std::mt19937 random_;
  std::string directory_;
  ManualClock clock_;
  NullLog log_;
  Registry registry_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Broker> broker_;
  std::vector<ClaimedJob> running_;
};

}  // namespace

TEST_CASE("why names a gate if and only if a claim does not give the job") {
  std::map<Gate, int> gates;
  int given = 0;
  for (unsigned seed = 1; seed <= kHistories; ++seed) {
    CAPTURE(seed);
    World world(seed);
    for (int i = 0; i < kHeads; ++i) world.head();
    for (const auto& [gate, times] : world.gates) gates[gate] += times;
    given += world.given;
  }
  CHECK(given > kHistories * 5);
  for (const Gate gate : {Gate::queue_paused, Gate::concurrency, Gate::key_concurrency,
                          Gate::key_rate, Gate::breaker, Gate::rate})
    CHECK_MESSAGE(gates[gate] > 0, to_string(gate) << " was never named");
}
