// scale simulate: what the scaling rule would have done with the recorded arrivals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/scale.h"
#include "env/clock.h"
#include "scale/scaler.h"
#include "scale/simulation.h"

namespace mainspring::cli {
namespace {

constexpr Duration kSimulateFrom = std::chrono::hours(24),
                   kLongestSimulated = std::chrono::hours(24 * 31);
constexpr double kP95 = 1.6449;  // standard deviations of a normal distribution

struct Recorded {
  std::vector<int> arrivals;  // per second
  HistoryPoint total;
};

// Jobs of a minute or an hour arrive at random seconds of it.
void add_arrivals(Recorded& out, const History& history, WallTime from, Draws& random) {
  const auto step = static_cast<std::size_t>(history.step / std::chrono::seconds(1));
  std::uniform_int_distribution<std::size_t> second(0, step - 1);
  for (const HistoryPoint& point : history.points) {
    if (point.at < from) continue;
    const auto begin = static_cast<std::size_t>((point.at - from) / std::chrono::seconds(1));
    for (std::int64_t i = 0; i < point.enqueued; ++i) {
      const std::size_t at = begin + second(random);
      if (at < out.arrivals.size()) ++out.arrivals[at];
    }
  }
}

// By the minute where minutes are kept, before that by the hour.
Result<Recorded> recorded(Client& client, const std::vector<std::string>& queues, WallTime from,
                          WallTime to) {
  constexpr Duration kDay = std::chrono::hours(24);
  Recorded out;
  out.arrivals.resize(static_cast<std::size_t>((to - from) / std::chrono::seconds(1)));
  Draws random(1);
  for (const std::string& queue : queues) {
    for (WallTime day = from; day < to; day = day + kDay) {
      HistoryFilter filter{.queue = queue, .kind = "", .from = day, .to = std::min(day + kDay, to)};
      filter.step = std::chrono::minutes(1);
      MS_TRY_ASSIGN(History history, client.history(filter));
      if (history.from > day + std::chrono::minutes(1)) {
        filter.step = std::chrono::hours(1);
        MS_TRY_ASSIGN(history, client.history(filter));
      }
      add_arrivals(out, history, from, random);
      // Times of the day with the most attempts.
      if (history.total.run.count > out.total.run.count) out.total = history.total;
    }
  }
  return out;
}

void print(const Invocation& invocation, Io& io, const char* name, const SimulationResult& r) {
  if (invocation.json) {
    return print_line(io, fmt::format(R"({{"rule":"{}","jobs":{},"p50_s":{},"p95_s":{},"p99_s":{},)"
                                      R"("late":{:.4f},"worker_hours":{:.2f},"most_workers":{},)"
                                      R"("turns":{}}})",
                                      name, r.jobs, r.p50_s, r.p95_s, r.p99_s, r.late,
                                      r.worker_hours, r.most_workers, r.turns));
  }
  print_line(io, fmt::format("{:<8} {:>9} jobs, wait p50 {} s, p95 {} s, p99 {} s, {:.1f} % late; "
                             "{:.1f} worker hours, at most {} workers, {} changes of direction",
                             name, format_count(r.jobs), r.p50_s, r.p95_s, r.p99_s, r.late * 100,
                             r.worker_hours, r.most_workers, r.turns));
}

Result<ScaleOptions> simulated_options(const Invocation& invocation) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const char* name : {"slots", "target", "min", "max", "lead", "hold"}) {
    if (const auto value = invocation.flag(name)) parameters.emplace_back(name, *value);
  }
  ScaleRequest request;
  MS_TRY(request.read(parameters));
  return request.options;
}

}  // namespace

Result<int> run_scale_simulate(const Invocation& invocation, Io& io) {
  SimulationOptions options;
  MS_TRY_ASSIGN(options.scale, simulated_options(invocation));
  MS_TRY_ASSIGN(const auto from, invocation.duration("from"));
  const Duration length = from.value_or(kSimulateFrom);
  if (length < std::chrono::minutes(10) || length > kLongestSimulated) {
    return invalid("from", fmt::format("--from {}: must be 10m to 31d", format_duration(length)));
  }
  const auto& queues = invocation.all_flags("queue");
  if (queues.empty()) return invalid("queue", "--queue: must be given at least once");
  for (const std::string& queue : queues) MS_TRY(check_name("--queue", queue));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime to = SystemClock().now().wall;
  MS_TRY_ASSIGN(const Recorded past, recorded(*connection->client, queues, to - length, to));
  const double p50 = past.total.run.count == 0 ? 2 : std::max(as_seconds(past.total.run.p50), 1e-3);
  const double p95 = past.total.run.count == 0 ? p50 : as_seconds(past.total.run.p95);
  const double spread = std::clamp(std::log(std::max(p95 / p50, 1.0)) / kP95, 0.0, 2.0);
  options.mean_s = p50 * std::exp(spread * spread / 2);
  options.run_time = [times = std::lognormal_distribution<double>(std::log(p50), spread)](
                         Draws& random) mutable { return times(random); };
  const SimulationResult rule = simulate_scaling(past.arrivals, options, scaling_rule(options));
  print(invocation, io, "rule", rule);
  const int fixed = std::max(1, rule.most_workers);
  print(invocation, io, "fixed",
        simulate_scaling(past.arrivals, options, [&](const SimulatedPool&) { return fixed; }));
  return kExitOk;
}

}  // namespace mainspring::cli
