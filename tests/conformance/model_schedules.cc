// Schedules of the model: its live jobs are found among all jobs.
#include "conformance/model_schedules.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring {
namespace {

std::optional<std::int64_t> limit_of(const Schedule& schedule) {
  if (schedule.max_runs == 0) return std::nullopt;
  return schedule.max_runs;
}

}  // namespace

// By id: in order of creation.
std::vector<Record*> ModelSchedules::jobs_of(const ScheduleRecord& schedule, bool waiting) const {
  std::vector<Record*> found;
  for (auto& [id, r] : disk_.jobs) {
    if (r.schedule == schedule.id && !is_terminal(r.job.state) &&
        (r.job.state == JobState::waiting && !r.job.deferred) == waiting)
      found.push_back(&r);
  }
  return found;
}

ScheduleInfo ModelSchedules::shown(const ScheduleRecord& schedule) const {
  ScheduleInfo info = schedule.info;
  for (const Record* r : jobs_of(schedule, false)) info.live.push_back(r->job.id);
  info.buffered = static_cast<int>(jobs_of(schedule, true).size());
  return info;
}

void ModelSchedules::add_row(ScheduleRecord& schedule, LedgerRow row, Now now) {
  wrote_ = true;
  row.seq = ++schedule.last_seq;
  row.decided_at = now.wall;
  schedule.ledger.push_back(std::move(row));
  if (schedule.ledger.size() > std::size_t{kLedgerRows})
    schedule.ledger.erase(schedule.ledger.begin());
}

void ModelSchedules::set_paused(ScheduleRecord& schedule, bool paused, std::string reason,
                                Now now) {
  wrote_ = true;
  ScheduleInfo& info = schedule.info;
  info.paused = paused;
  info.paused_reason = paused ? std::move(reason) : "";
  info.updated_at = now.wall;
  if (paused) return;
  info.skip_before = now.wall;
  info.skip_reason = "paused";
}

std::map<std::string, ScheduleRecord>::iterator ModelSchedules::find(const std::string& name,
                                                                     const Within& within) {
  const auto found = disk_.schedules.find(name);
  const bool there =
      found != disk_.schedules.end() && within.has(found->second.info.schedule.job.queue);
  return there ? found : disk_.schedules.end();
}

OperationResult ModelSchedules::run(const PutSchedule& op, Now now) {
  const std::string& name = op.schedule.name;
  const bool is_new = !disk_.schedules.contains(name);
  if (is_new && disk_.schedules.size() >= std::size_t{kMaxSchedules})
    return Error{.code = ErrorCode::overloaded, .message = "too many schedules"};
  ScheduleRecord& schedule = disk_.schedules[name];
  ScheduleInfo& info = schedule.info;
  if (!is_new && !op.within.has(info.schedule.job.queue))
    return Error{.code = ErrorCode::forbidden, .message = "it is for another queue"};
  if (!is_new && info.schedule == op.schedule && op.runs == RunCount::keep) {
    if (op.paused && *op.paused != info.paused) set_paused(schedule, *op.paused, "", now);
    return PutScheduleResult{.version = info.version, .outcome = PutOutcome::unchanged};
  }
  wrote_ = true;
  if (is_new) {
    schedule.id = ++disk_.last_schedule;
    info.version = disk_.removed[name] + 1;
    info.created_at = now.wall;
  } else {
    if (info.next <= now.wall) {
      const bool once = info.schedule.at.has_value();
      LedgerRow row{.version = info.version, .nominal = info.next, .state = TickState::skipped};
      row.reason = "replaced";
      row.count = once ? 1 : 0;
      if (!once) row.until = now.wall;
      add_row(schedule, row, now);
    }
    ++info.version;
  }
  const std::int64_t ran = info.remaining ? info.schedule.max_runs - *info.remaining : info.fired;
  info.schedule = op.schedule;
  info.next = op.next;
  info.next_fire = op.next_fire;
  info.skip_before = WallTime();
  info.skip_reason.clear();
  info.remaining = limit_of(op.schedule);
  if (info.remaining && op.runs == RunCount::keep)
    *info.remaining = std::max<std::int64_t>(*info.remaining - ran, 0);
  const bool has_run =
      std::any_of(schedule.ledger.begin(), schedule.ledger.end(), [&](const LedgerRow& row) {
        const bool counts =
            row.source == TickSource::schedule || row.source == TickSource::backfill;
        return counts && row.state == TickState::fired && row.nominal == op.schedule.at;
      });
  if (info.remaining == 0 || (has_run && op.runs == RunCount::keep))
    info.next = info.next_fire = WallTime::never();
  if (!op.schedule.continuous) info.timeout_override.reset();
  if (op.paused && *op.paused != info.paused) info.paused_reason.clear();
  info.paused = op.paused.value_or(info.paused);
  info.updated_at = now.wall;
  return PutScheduleResult{.version = info.version,
                           .outcome = is_new ? PutOutcome::created : PutOutcome::replaced};
}

OperationResult ModelSchedules::run(const RemoveSchedule& op) {
  const auto found = find(op.name, op.within);
  if (found == disk_.schedules.end()) return missing();
  wrote_ = true;
  for (Record* r : jobs_of(found->second, true)) jobs_.begin(*r);
  disk_.removed[op.name] = found->second.info.version;
  disk_.schedules.erase(found);
  return Done{};
}

OperationResult ModelSchedules::run(const PauseSchedule& op, Now now) {
  const auto found = find(op.name, op.within);
  if (found == disk_.schedules.end()) return missing();
  if (found->second.info.paused != op.paused) set_paused(found->second, op.paused, op.reason, now);
  return Done{};
}

OperationResult ModelSchedules::run(const SetTimer& op, Now now) {
  const auto found = find(op.name, op.within);
  if (found == disk_.schedules.end()) return missing();
  ScheduleInfo& info = found->second.info;
  if (!info.schedule.continuous)
    return Error{.code = ErrorCode::conflict, .message = "it is not continuous"};
  std::optional<Duration> timeout;
  if (op.timeout > Duration(0)) timeout = op.timeout;
  if (info.timeout_override == timeout) return Done{};
  wrote_ = true;
  info.timeout_override = timeout;
  info.updated_at = now.wall;
  return Done{};
}

OperationResult ModelSchedules::run(const FireSchedule& op, Now now) {
  const auto found = find(op.name, op.within);
  if (found == disk_.schedules.end()) return missing();
  ScheduleRecord& schedule = found->second;
  ScheduleInfo& info = schedule.info;
  const bool by_the_clock = op.source == TickSource::schedule;
  const bool only_plans = !op.ticks.empty() && op.ticks[0].count == 0;
  if (by_the_clock &&
      (info.version != op.version || (info.paused && !only_plans) || info.next != op.expected_next))
    return Error{.code = ErrorCode::conflict, .message = "it has changed"};
  for (const Tick& tick : op.ticks) {
    if (by_the_clock && tick.until.value_or(tick.nominal) > now.wall)
      return Error{.code = ErrorCode::unavailable, .message = "it is not due"};
  }
  if (op.ticks.size() > kMaxFireTicks)
    return Error{.code = ErrorCode::too_large, .message = "too many ticks"};
  FireResult result;
  for (Tick tick : op.ticks) {
    if (!by_the_clock && tick.nominal == WallTime()) tick.nominal = now.wall;
    JobState begins = JobState::available;
    std::string reason = tick.reason;
    if (tick.fire) reason = why_not(schedule, op, tick.nominal, begins);
    const bool fires = tick.fire && reason.empty();
    LedgerRow row{.version = info.version,
                  .nominal = tick.nominal,
                  .until = tick.until,
                  .count = tick.count,
                  .source = op.source,
                  .state = fires ? TickState::fired : TickState::skipped,
                  .past_due = tick.past_due};
    row.note = tick.note;
    row.reason = reason;
    if (fires) row.job = fire(schedule, op, tick, begins, now);
    result.jobs.push_back(row.job);
    ++(fires ? result.fired : result.skipped);
    add_row(schedule, row, now);
  }
  if (by_the_clock) {
    info.next = op.next;
    info.next_fire = op.next_fire;
  }
  if (info.remaining == 0) info.next = info.next_fire = WallTime::never();
  return result;
}

std::string ModelSchedules::why_not(ScheduleRecord& schedule, const FireSchedule& op,
                                    WallTime nominal, JobState& begins) {
  const ScheduleInfo& info = schedule.info;
  const auto counts = [](TickSource s) {
    return s == TickSource::schedule || s == TickSource::backfill;
  };
  if (counts(op.source)) {
    const LedgerRow* had = nullptr;
    for (const LedgerRow& row : schedule.ledger) {
      if (row.state == TickState::fired && counts(row.source) && row.nominal == nominal &&
          (op.source == TickSource::backfill || row.version == info.version))
        had = &row;
    }
    if (had != nullptr) return fmt::format("has run as job {}", had->job);
  }
  if (op.source == TickSource::wake && info.paused) return "paused";
  if (info.remaining == 0) return "no runs remain";
  if (op.source == TickSource::wake)
    return jobs_of(schedule, false).size() + jobs_of(schedule, true).size() >= 2
               ? "the next run is already queued"
               : "";
  return overlap(schedule, op.overlap.value_or(info.schedule.overlap), begins);
}

std::string ModelSchedules::overlap(ScheduleRecord& schedule, Overlap policy, JobState& begins) {
  std::vector<Record*> live = jobs_of(schedule, false);
  const std::vector<Record*> waiting = jobs_of(schedule, true);
  if (live.empty() || policy == Overlap::allow) return "";
  const std::string& name = schedule.info.schedule.name;
  if (policy == Overlap::skip) return fmt::format("overlap: job {} has not ended", live[0]->job.id);
  if (policy == Overlap::buffer_one && !waiting.empty())
    return fmt::format("overlap: job {} already waits", waiting[0]->job.id);
  if (policy == Overlap::buffer_all && waiting.size() >= std::size_t{kMaxBuffered})
    return fmt::format("overlap: {} jobs wait", waiting.size());
  if (policy == Overlap::terminate_other) {
    for (Record* r : waiting) jobs_.end_now(*r, "terminated by schedule " + name);
    for (Record* r : live) jobs_.end_now(*r, "terminated by schedule " + name);
  }
  if (policy == Overlap::cancel_other) {
    for (Record* r : waiting) jobs_.ask_to_stop(*r, "cancelled by schedule " + name);
    for (Record* r : live) jobs_.ask_to_stop(*r, "cancelled by schedule " + name);
  }
  if (!jobs_of(schedule, false).empty()) begins = JobState::waiting;
  return "";
}

JobId ModelSchedules::fire(ScheduleRecord& schedule, const FireSchedule& op, const Tick& tick,
                           JobState begins, Now now) {
  ScheduleInfo& info = schedule.info;
  const Duration jitter = info.next_fire - info.next;
  WallTime run_at = now.wall;
  if (op.source == TickSource::schedule) run_at = std::min(run_at, tick.nominal + jitter);
  NewJob job = info.schedule.job;
  job.headers = tick_headers(info.schedule, tick.nominal, tick.past_due);
  ++info.fired;
  info.last_fired = tick.nominal;
  info.last_job = jobs_.make(job, run_at, begins, schedule.id);
  if (info.remaining) --*info.remaining;
  return info.last_job;
}

void ModelSchedules::job_ended(const Record& record, Now now) {
  for (auto& [name, schedule] : disk_.schedules) {
    if (record.schedule != schedule.id) continue;
    const bool failed = record.job.state == JobState::dead;
    if (failed && schedule.info.schedule.pause_on_failure && !schedule.info.paused)
      set_paused(schedule, true, fmt::format("job {} is dead", record.job.id), now);
    const std::vector<Record*> waiting = jobs_of(schedule, true);
    if (!waiting.empty() && jobs_of(schedule, false).empty()) jobs_.begin(*waiting[0]);
  }
}

// -- reads ----------------------------------------------------------------------------------------

WallTime ModelSchedules::next_fire() const {
  const std::vector<ScheduleInfo> all = due(WallTime::never(), 1);
  return all.empty() ? WallTime::never() : all[0].next_fire;
}

Result<ScheduleInfo> ModelSchedules::read(const std::string& name) const {
  const auto found = disk_.schedules.find(name);
  if (found == disk_.schedules.end()) return missing();
  return shown(found->second);
}

std::vector<ScheduleInfo> ModelSchedules::list(const std::string& after, int limit) const {
  std::vector<ScheduleInfo> all;
  for (const auto& [name, schedule] : disk_.schedules) {
    if (name > after && static_cast<int>(all.size()) < limit) all.push_back(shown(schedule));
  }
  return all;
}

std::vector<ScheduleInfo> ModelSchedules::due(WallTime now, int limit) const {
  std::vector<const ScheduleRecord*> found;
  for (const auto& [name, schedule] : disk_.schedules) {
    const ScheduleInfo& info = schedule.info;
    if (!info.paused && info.next_fire != WallTime::never() && info.next_fire <= now)
      found.push_back(&schedule);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
    return a->info.next_fire < b->info.next_fire;
  });
  std::vector<ScheduleInfo> all;
  for (const ScheduleRecord* schedule : found) {
    if (static_cast<int>(all.size()) < limit) all.push_back(shown(*schedule));
  }
  return all;
}

Result<LedgerPage> ModelSchedules::ledger(const std::string& name, int limit,
                                          std::int64_t before) const {
  const auto found = disk_.schedules.find(name);
  if (found == disk_.schedules.end()) return missing();
  LedgerPage page;
  const std::vector<LedgerRow>& rows = found->second.ledger;
  for (auto it = rows.rbegin(); it != rows.rend(); ++it) {
    if (before > 0 && it->seq >= before) continue;
    if (static_cast<int>(page.rows.size()) == limit) {
      page.next = page.rows.empty() ? before : page.rows.back().seq;
      break;
    }
    LedgerRow& row = page.rows.emplace_back(*it);
    const auto job = disk_.jobs.find(row.job);
    if (job != disk_.jobs.end()) row.job_state = job->second.job.state;
  }
  return page;
}

}  // namespace mainspring
