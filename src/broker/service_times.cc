// How long attempts of a queue run.
#include "broker/service_times.h"

#include <algorithm>

namespace mainspring {
namespace {

// All rows of the queue in this time, added up; empty if they cannot be read.
TimeSketch runs_of(const Store& store, const std::string& queue, Duration within, WallTime now) {
  HistoryRead read{.queue = queue, .kind = "", .from = {}, .to = {}, .step = kHistoryHour};
  read.from = step_start(std::max(now, WallTime() + within) - within, kHistoryHour);
  read.to = step_start(now, kHistoryHour) + kHistoryHour;
  TimeSketch run;
  const auto counts = store.history(read, now);
  if (!counts) return run;
  for (const HistoryCounts& one : *counts) run.add(one.run);
  return run;
}

}  // namespace

ServiceTime service_time_of(const TimeSketch& run, ServiceTime::Source source) {
  return {.mean = run.mean(),
          .p50 = run.percentile(0.5),
          .p95 = run.percentile(0.95),
          .samples = run.count(),
          .source = source};
}

ServiceTime ServiceTimes::of(const Store& store, const std::string& queue,
                             const RecentCount* recent, WallTime now) {
  using Source = ServiceTime::Source;
  std::optional<ServiceTime> found;
  if (recent != nullptr && !recent->counts.run.empty()) {
    found = service_time_of(recent->counts.run, Source::recent);
  } else {
    MutexLock lock(mutex_);
    const auto known = known_.find(queue);
    if (known != known_.end()) return known->second;
  }
  if (!found) {
    TimeSketch run = runs_of(store, queue, kFirstRead, now);
    if (run.empty()) run = runs_of(store, queue, store.history_kept().hours, now);
    found = run.empty() ? ServiceTime() : service_time_of(run, Source::history);
  }
  MutexLock lock(mutex_);
  if (known_.size() >= kMaxQueues && !known_.contains(queue)) known_.clear();
  ServiceTime& known = known_[queue] = *found;
  if (known.source == Source::recent) known.source = Source::history;
  return *found;
}

}  // namespace mainspring
