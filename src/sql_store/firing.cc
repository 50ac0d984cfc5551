// Decides ticks of schedules: the ledger row, the job and the next time are one transaction. Also
// starts the jobs that wait for earlier jobs of their schedule.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"
#include "store/common_rules.h"

namespace mainspring::sql {

OperationResult SqlStore::operator()(const FireSchedule& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  ScheduleState* state = find_schedule(op.name, op.within);
  if (state == nullptr) return no_schedule(op.name);
  if (auto refused = check_fire(op, state->info)) return std::move(*refused);
  begin_write();
  FireResult result;
  result.jobs.reserve(op.ticks.size());
  for (const Tick& tick : op.ticks) {
    const JobId id = decide(*state, op, tick);
    result.jobs.push_back(id);
    ++(id != 0 ? result.fired : result.skipped);
  }
  unlist(*state);
  set_next(state->info, op);
  list(*state);
  save_schedule(*state);
  return result;
}

std::optional<Error> SqlStore::check_fire(const FireSchedule& op, const ScheduleInfo& info) const {
  if (auto refused = check_ticks(op, info, now_.wall)) return refused;
  const bool fires =
      std::any_of(op.ticks.begin(), op.ticks.end(), [](const Tick& t) { return t.fire; });
  if (!refuse_enqueues_ || !fires) return std::nullopt;
  return Error{
      .code = ErrorCode::storage_full,
      .message = fmt::format(
          "schedule {}: the disk of the store is full: no job is created until there is space",
          op.name),
      .retry_after_ms = 5000};
}

// Decides one tick: writes its row, and makes its job unless it is skipped; returns 0 if skipped.
JobId SqlStore::decide(ScheduleState& state, const FireSchedule& op, const Tick& planned) {
  Tick tick = planned;
  tick.nominal = nominal_of(op, planned, now_.wall);
  JobState begins = JobState::available;
  std::string reason = tick.fire ? refuse_tick(state, op, tick.nominal, begins) : tick.reason;
  LedgerRow row = row_of(op, state.info, tick);
  if (tick.fire && reason.empty()) {
    row.job = fire_tick(state, op, tick, begins);
  } else {
    row.state = TickState::skipped;
    row.reason = std::move(reason);
  }
  if (!(MS_MUTANT(job_without_a_row) && row.job != 0)) add_row(state, row);
  return row.job;
}

// The job of that tick, if it has fired by the clock or a backfill; else 0.
JobId SqlStore::fired_as(const ScheduleState& state, WallTime nominal,
                         std::optional<std::int64_t> version) {
  Statement& fired = schedule_sql_->select_fired;
  fired.bind(state.id, nominal.us(), version);
  ResetGuard guard(fired);
  return fired.step() ? fired.integer(0) : 0;
}

std::string SqlStore::refuse_tick(ScheduleState& state, const FireSchedule& op, WallTime nominal,
                                  JobState& begins) {
  const ScheduleInfo& info = state.info;
  if (op.source == TickSource::schedule || op.source == TickSource::backfill) {
    const bool any_version = op.source == TickSource::backfill;
    const JobId had =
        fired_as(state, nominal, any_version ? std::nullopt : std::optional(info.version));
    if (had != 0) return fmt::format("has run as job {}", had);
  }
  TickDecision decision = decide_tick(op, info, state.live, state.waiting);
  if (decision.stops_others) stop_others(state, op.overlap.value_or(info.schedule.overlap));
  if (decision.waits && !state.live.empty()) begins = JobState::waiting;
  return std::move(decision.skip);
}

// Cancels waiting jobs first, so that none starts when the last live job ends.
void SqlStore::stop_others(ScheduleState& state, Overlap policy) {
  const bool at_once = policy == Overlap::terminate_other;
  const std::string reason = fmt::format("{} by schedule {}", at_once ? "terminated" : "cancelled",
                                         state.info.schedule.name);
  std::vector<JobId> others(state.waiting.begin(), state.waiting.end());
  others.insert(others.end(), state.live.begin(), state.live.end());
  for (const JobId id : others) {
    const auto lease = leases_.find(id);
    if (lease == leases_.end()) {
      auto hot = load_hot(id);
      cancel_hot(*hot, reason);
    } else if (at_once) {
      end_cancelled(id, lease->second, reason);
    } else {
      request_cancel(id, lease->second, reason);
    }
  }
}

JobId SqlStore::fire_tick(ScheduleState& state, const FireSchedule& op, const Tick& tick,
                          JobState begins) {
  ScheduleInfo& info = state.info;
  const WallTime run_at = tick_run_at(op, info, tick, now_.wall);
  const JobId id = make_job(job_of(info, tick), run_at, begins, state.id).id;
  link_to_schedule(id, state, begins);
  note_fired(info, tick.nominal, id);
  return id;
}

void SqlStore::add_row(ScheduleState& state, const LedgerRow& row) {
  const std::int64_t seq = state.next_seq++;
  const auto until = row.until ? std::optional<std::int64_t>(row.until->us()) : std::nullopt;
  const auto job = row.job != 0 ? std::optional<std::int64_t>(row.job) : std::nullopt;
  schedule_sql_->insert_tick
      .bind(state.id, seq, row.version, row.nominal.us(), until, row.count,
            static_cast<int>(row.source), static_cast<int>(row.state), row.past_due ? 1 : 0, job,
            Statement::text_or_null(row.reason), Statement::text_or_null(row.note), now_.wall.us())
      .run();
  if (seq > kLedgerRows) schedule_sql_->delete_tick.bind(state.id, seq - kLedgerRows).run();
}

void SqlStore::link_to_schedule(JobId id, ScheduleState& state, JobState job) {
  schedule_sql_->insert_link.bind(id, state.id).run();
  linked_jobs_.emplace(id, &state);
  if (job != JobState::waiting) return set_live(id, state, true);
  state.waiting.insert(id);
  touched_schedules_[state.info.schedule.name];
}

// Publishes only the difference: with the policy `allow` a schedule may have many live jobs.
void SqlStore::set_live(JobId id, ScheduleState& state, bool lives) {
  if (lives) {
    state.live.insert(id);
  } else {
    state.live.erase(id);
  }
  state.waiting.erase(id);
  touched_schedules_[state.info.schedule.name].live.emplace_back(id, lives);
}

// The job has ended: waiting jobs no longer wait for it.
void SqlStore::end_link(JobId id, JobState job) {
  const auto found = linked_jobs_.find(id);
  if (found == linked_jobs_.end()) return;
  ScheduleState& state = *found->second;
  linked_jobs_.erase(found);
  set_live(id, state, false);
  schedule_sql_->delete_link.bind(id).run();
  const bool failed = job == JobState::dead && state.info.schedule.pause_on_failure;
  if (failed && !state.info.paused && !MS_MUTANT(failure_does_not_pause))
    set_paused(state, true, fmt::format("job {} is dead", id));
  if (state.live.empty() && !state.waiting.empty() && !MS_MUTANT(buffered_job_forgotten))
    begin_waiting(*state.waiting.begin(), state);
}

void SqlStore::begin_waiting(JobId id, ScheduleState& state) {
  set_live(id, state, true);
  auto hot = load_hot(id);
  MS_ASSERT(hot && hot->state == JobState::waiting, "the waiting job exists");
  count(*hot->queue, hot->state, hot->flags, -1);
  hot->state = JobState::available;
  ++hot->version;
  save_hot(*hot);
  enter(*hot);
  count(*hot->queue, hot->state, hot->flags, 1);
}

void SqlStore::relink(JobId id, std::int64_t schedule) {
  const auto tied = linked_jobs_.find(id);
  if (tied != linked_jobs_.end()) {  // it may have waited
    set_live(id, *tied->second, true);
    return;
  }
  const auto found = schedules_by_id_.find(schedule);
  if (found != schedules_by_id_.end()) link_to_schedule(id, *found->second, JobState::available);
}

}  // namespace mainspring::sql
