// When the history is written, and how it is read.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/mutant.h"
#include "broker/broker.h"
#include "mainspring/job.h"

namespace mainspring {
namespace {

constexpr Duration kMinute = kHistoryMinute, kHour = kHistoryHour, kDay = std::chrono::hours(24);
constexpr std::array kSteps = {kMinute,   5 * kMinute, 15 * kMinute, kHour,
                               6 * kHour, kDay,        7 * kDay,     30 * kDay};
constexpr std::int64_t kDefaultPoints = 32;
constexpr int kReads = 5;  // attempts to read the store while rows are being written
constexpr Duration kWriteTakes = std::chrono::seconds(1);

Error bad(std::string field, std::string message) {
  return {.code = ErrorCode::invalid_argument,
          .message = fmt::format("{} {}", field, message),
          .field = std::move(field)};
}

Result<Duration> step_of(const HistoryFilter& filter, WallTime from, WallTime to) {
  if (filter.step == Duration(0)) {
    const auto fits = [&](Duration step) { return (to - from) / step <= kDefaultPoints; };
    const auto found = std::find_if(kSteps.begin(), kSteps.end(), fits);
    return found == kSteps.end() ? kSteps.back() : *found;
  }
  const Duration unit = filter.step < kHour ? kMinute : kHour;
  if (filter.step < kMinute || filter.step > kMaxHistoryStep || filter.step % unit != Duration(0)) {
    return bad("step", fmt::format("{}: must be whole minutes from 1m to 59m, or whole hours from "
                                   "1h to 30d",
                                   format_duration(filter.step)));
  }
  return filter.step;
}

// Rounds to multiples of the step, and limits the range to what is kept.
Result<HistoryRead> read_of(const HistoryFilter& filter, HistoryKept kept, WallTime now) {
  const WallTime to = std::min(filter.to.value_or(now), now);
  if (filter.from && filter.to && *filter.from >= *filter.to) {
    return bad("from", fmt::format("{}: must be before to, {}", format_wall_time(*filter.from),
                                   format_wall_time(*filter.to)));
  }
  if (filter.from && *filter.from >= now + kMinute) {
    return bad("from", fmt::format("{}: must not be in the future, now is {}",
                                   format_wall_time(*filter.from), format_wall_time(now)));
  }
  const WallTime from = filter.from.value_or(std::max(WallTime() + kDay, to) - kDay);
  MS_TRY_ASSIGN(const Duration step, step_of(filter, from, to));
  const WallTime oldest = std::max(now - kept.of(step), WallTime());
  HistoryRead read{.queue = filter.queue,
                   .kind = filter.kind,
                   .from = step_start(std::max(from, oldest), step),
                   .to = to < now ? step_start(to + (step - Duration(1)), step)
                                  : step_start(now, step) + step,  // including the current step
                   .step = step};
  if (read.to <= read.from) read.to = read.from;
  if ((read.to - read.from) / step > kMaxHistoryPoints) {
    return bad("step", fmt::format("{}: from {} to {} are {} points: must be at most {}; use a "
                                   "longer step or a shorter window",
                                   format_duration(step), format_wall_time(read.from),
                                   format_wall_time(read.to), (read.to - read.from) / step,
                                   kMaxHistoryPoints));
  }
  return read;
}

HistoryTimes times_of(const TimeSketch& sketch) {
  return {.count = sketch.count(),
          .p50 = sketch.percentile(0.50),
          .p95 = sketch.percentile(0.95),
          .p99 = sketch.percentile(0.99)};
}

HistoryPoint point_of(WallTime at, const HistoryCounts& counts) {
  return {.at = at,
          .enqueued = counts.enqueued,
          .started = counts.started,
          .completed = counts.completed,
          .failed = counts.failed,
          .dead = counts.dead,
          .cancelled = counts.cancelled,
          .wait = times_of(counts.wait),
          .run = times_of(counts.run)};
}

}  // namespace

// -- writing -------------------------------------------------------------------------------------

void Broker::count(const Batch& batch, const BatchReport& report, Now now) {
  for (std::size_t i = 0; i < batch.operations.size(); ++i)
    job_metrics_.note(batch.operations[i], report.results[i], traces_, now);
  job_metrics_.end_batch(batch.operations, report.results, report.effects, now);
}

void Broker::look_up_history() {
  HistoryCounter::LookUps asked;
  {
    MutexLock lock(mutex_);
    if (!history_.wants_look_up()) return;
    asked = history_.look_up();
  }
  std::vector<JobId> ids;
  ids.reserve(asked.size());
  for (const auto& [id, one] : asked) ids.push_back(id);
  const auto facts = store_.facts(ids);
  MutexLock lock(mutex_);
  if (facts) {
    history_.looked_up(std::move(asked), *facts);
  } else {
    history_.give_back(std::move(asked));
  }
}

bool Broker::offer_history(HistoryWrite when, Now now) {
  {
    MutexLock lock(mutex_);
    if (when == HistoryWrite::with_batch && !history_.due(now.instant)) return false;
  }
  look_up_history();
  HistoryRowsPtr rows;
  {
    MutexLock lock(mutex_);
    rows = history_.take();
  }
  if (rows == nullptr) return false;
  store_.offer_history(std::move(rows), when);
  return true;
}

void Broker::note_history(const Result<BatchReport>& report, Now now) {
  using Tried = HistoryCounter::Tried;
  if (report && report->history_written) {
    history_.written(now.instant);
  } else if (report) {
    history_.not_written(Tried::nothing_to_write, now.instant);
  } else {
    const bool unknown = report.error().code == ErrorCode::timeout;
    history_.not_written(unknown ? Tried::outcome_unknown : Tried::failed, now.instant);
  }
  history_settled_.notify_all();
}

void Broker::write_history(Now now) {
  {
    MutexLock lock(mutex_);
    if (failed_ || MS_MUTANT(history_lost_at_stop)) return;
  }
  if (!offer_history(HistoryWrite::always, now)) return;
  const auto report = store_.apply({}, now);
  MutexLock lock(mutex_);
  note_history(report, now);
}

// -- reading -------------------------------------------------------------------------------------

Result<History> Broker::history(const HistoryFilter& filter) {
  return history(filter, {});
}

// The store's rows and the unwritten rows must match: if a write happened between the two reads,
// both are read again.
Result<void> Broker::read_with_unwritten(
    const std::function<Result<void>(const HistoryRows&)>& read) {
  look_up_history();
  for (int tries = 1; tries <= kReads; ++tries) {
    std::uint64_t takes = 0;
    HistoryRows unwritten;
    {
      MutexLock lock(mutex_);
      if (history_.takes() % 2 != 0) history_settled_.wait_for(mutex_, kWriteTakes);
      takes = history_.takes();
      unwritten = history_.unwritten();
    }
    MS_TRY(read(unwritten));
    MutexLock lock(mutex_);
    if (history_.takes() == takes) break;
  }
  return {};
}

Result<History> Broker::history(const HistoryFilter& filter, const Within& within) {
  const WallTime now = clock_.now().wall;
  if (!filter.queue.empty()) MS_TRY(check_name("queue", filter.queue));
  if (!filter.kind.empty()) MS_TRY(check_name("kind", filter.kind));
  MS_TRY_ASSIGN(HistoryRead read, read_of(filter, store_.history_kept(), now));
  read.within = within;
  std::vector<HistoryCounts> counts;
  MS_TRY(read_with_unwritten([&](const HistoryRows& unwritten) -> Result<void> {
    MS_TRY_ASSIGN(counts, store_.history(read, now));
    for (const HistoryRow& row : unwritten) {
      HistoryCounts* const point = read.find(counts, row.at);
      if (point != nullptr && read.adds(row)) point->add(row.counts);
    }
    return {};
  }));
  History out{.queue = filter.queue,
              .kind = filter.kind,
              .from = read.from,
              .to = read.to,
              .step = read.step};
  HistoryCounts total;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.points.push_back(point_of(read.from + read.step * static_cast<std::int64_t>(i), counts[i]));
    total.add(counts[i]);
  }
  out.total = point_of(read.from, total);
  return out;
}

}  // namespace mainspring
