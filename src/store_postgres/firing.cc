// Decides ticks of schedules: the ledger row, the job and the next time are one transaction.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "store/common_rules.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

// Whether its ticks are those of the calendar, and run once.
bool counts(TickSource source) {
  return source == TickSource::schedule || source == TickSource::backfill;
}

bool fires_any(const FireSchedule& op) {
  return std::any_of(op.ticks.begin(), op.ticks.end(), [](const Tick& tick) { return tick.fire; });
}

}  // namespace

// The current operation.
struct PostgresStore::Firing {
  const FireSchedule& op;
  LoadedSchedule& schedule;
  std::vector<LedgerRow> rows;
  std::size_t at = 0;  // the tick being decided
};

OperationResult PostgresStore::operator()(const FireSchedule& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  if (ends_others(op)) know_others({op.name});
  LoadedSchedule* schedule = take_schedule(op.name, op.within);
  if (schedule == nullptr) return no_schedule(op.name);
  if (auto refused = check_ticks(op, schedule->info, now_.wall)) return std::move(*refused);
  if (minds_others(op, *schedule)) know_links({schedule});
  Ints ids, nominals;
  add_unknown_ticks(op, *schedule, ids, nominals);
  ask_fired(ids, nominals);
  Firing firing{.op = op, .schedule = *schedule};
  FireResult result;
  result.jobs.reserve(op.ticks.size());
  for (; firing.at < op.ticks.size(); ++firing.at) {
    const JobId id = decide(firing, op.ticks[firing.at]);
    result.jobs.push_back(id);
    ++(id != 0 ? result.fired : result.skipped);
  }
  set_next(schedule->info, op);
  add_ledger_rows(*schedule, firing.rows);
  save_schedule(*schedule);
  write_new_links(*schedule);
  guard_waiting(*schedule);
  return result;
}

// -- rows loaded in advance -----------------------------------------------------------------------

bool PostgresStore::minds_others(const FireSchedule& op, const LoadedSchedule& schedule) {
  if (!fires_any(op)) return false;
  const Overlap policy = op.overlap.value_or(schedule.info.schedule.overlap);
  return op.source == TickSource::wake || policy != Overlap::allow;
}

// Guesses from this node's copy; only the lock order depends on it.
bool PostgresStore::ends_others(const FireSchedule& op) const {
  if (!fires_any(op) || op.source == TickSource::wake) return false;
  std::optional<Overlap> policy = op.overlap;
  if (!policy) {
    MutexLock lock(published_mutex_);
    const auto found = published_schedules_.find(op.name);
    if (found != published_schedules_.end()) policy = found->second.info.schedule.overlap;
  }
  return policy == Overlap::cancel_other || policy == Overlap::terminate_other;
}

// The end of a job locks the job and then its schedule. Ending the jobs of a schedule must use the
// same order.
void PostgresStore::know_others(const std::vector<std::string>& names) {
  std::vector<std::string> wanted;
  for (const std::string& name : names) {
    if (!after_.loaded_schedules.contains(name)) wanted.push_back(name);
  }
  if (wanted.empty()) return;
  const Rows rows = ask(schedule_sql_.jobs_of, params(wanted));
  std::vector<JobId> jobs;
  for (int row = 0; row < rows.size(); ++row) jobs.push_back(rows.integer(row, 0));
  jobs_by_id(jobs);
}

// The nominal times of this operation whose ledger rows are not loaded.
void PostgresStore::add_unknown_ticks(const FireSchedule& op, LoadedSchedule& schedule, Ints& ids,
                                      Ints& nominals) const {
  if (!counts(op.source)) return;
  for (const Tick& tick : op.ticks) {
    if (!tick.fire) continue;
    const std::int64_t nominal = nominal_of(op, tick, now_.wall).us();
    if (!schedule.fired.try_emplace(nominal).second) continue;
    ids.push_back(schedule.id);
    nominals.push_back(nominal);
  }
}

void PostgresStore::ask_fired(const Ints& ids, const Ints& nominals) {
  if (ids.empty()) return;
  const Rows rows = ask(schedule_sql_.select_fired, params(ids, nominals));
  for (int row = 0; row < rows.size(); ++row) {
    LoadedSchedule* schedule = known_schedule(rows.integer(row, 0));
    MS_ASSERT(schedule != nullptr, "only loaded schedules are asked for");
    schedule->fired[rows.integer(row, 1)].push_back(
        {.version = rows.integer(row, 2), .job = rows.integer(row, 3)});
  }
}

// -- one tick -------------------------------------------------------------------------------------

// Decides one tick: writes its row, and makes its job unless it is skipped; returns 0 if skipped.
JobId PostgresStore::decide(Firing& firing, const Tick& planned) {
  Tick tick = planned;
  tick.nominal = nominal_of(firing.op, planned, now_.wall);
  JobState begins = JobState::available;
  std::string reason = tick.fire ? refuse_tick(firing, tick.nominal, begins) : tick.reason;
  LedgerRow row = row_of(firing.op, firing.schedule.info, tick);
  if (tick.fire && reason.empty()) {
    row.job = fire_tick(firing, tick, begins);
  } else {
    row.state = TickState::skipped;
    row.reason = std::move(reason);
  }
  const JobId job = row.job;
  if (!(MS_MUTANT(job_without_a_row) && job != 0)) firing.rows.push_back(std::move(row));
  return job;
}

std::string PostgresStore::refuse_tick(Firing& firing, WallTime nominal, JobState& begins) {
  const FireSchedule& op = firing.op;
  LoadedSchedule& schedule = firing.schedule;
  const ScheduleInfo& info = schedule.info;
  if (const JobId had = has_run(firing, nominal); had != 0)
    return fmt::format("has run as job {}", had);
  TickDecision decision = decide_tick(op, info, schedule.live, schedule.waiting);
  if (decision.stops_others) stop_others(schedule, op.overlap.value_or(info.schedule.overlap));
  if (decision.waits && !schedule.live.empty()) begins = JobState::waiting;
  return std::move(decision.skip);
}

// The job made for this nominal time by the clock or a backfill; 0 = none.
JobId PostgresStore::has_run(const Firing& firing, WallTime nominal) {
  if (!counts(firing.op.source)) return 0;
  const bool any_version = firing.op.source == TickSource::backfill;
  JobId had = 0;
  for (const auto& fired : firing.schedule.fired.at(nominal.us())) {
    if (any_version || fired.version == firing.schedule.info.version) had = fired.job;
  }
  return had;
}

// Cancels waiting jobs first, so that none starts when the last live job ends.
void PostgresStore::stop_others(LoadedSchedule& schedule, Overlap policy) {
  const bool at_once = policy == Overlap::terminate_other;
  const std::string reason = fmt::format("{} by schedule {}", at_once ? "terminated" : "cancelled",
                                         schedule.info.schedule.name);
  std::vector<JobId> others(schedule.waiting.begin(), schedule.waiting.end());
  others.insert(others.end(), schedule.live.begin(), schedule.live.end());
  jobs_by_id(others);
  for (const JobId id : others) {
    LoadedJob* held = job(id);
    if (held == nullptr || is_terminal(held->row.state)) continue;
    if (at_once || held->row.state != JobState::running) {
      end_job(*held, JobState::cancelled, reason, "");
    } else {
      (void)(*this)(Cancel{.id = id, .reason = reason});
    }
  }
  settle_links();
}

JobId PostgresStore::fire_tick(Firing& firing, const Tick& tick, JobState begins) {
  const FireSchedule& op = firing.op;
  LoadedSchedule& schedule = firing.schedule;
  ScheduleInfo& info = schedule.info;
  const WallTime run_at = tick_run_at(op, info, tick, now_.wall);
  if (next_id_ >= ids_end_) new_ids(std::max<std::size_t>(1, sure_to_fire(firing)));
  const JobId id = add_job(job_of(info, tick), run_at, begins, schedule.id).row.id;
  const bool waits = begins == JobState::waiting;
  (waits ? schedule.waiting : schedule.live).insert(id);
  schedule.unwritten.insert(id);
  if (!waits) schedule.live_is_ours = true;
  after_.links.push_back({.schedule = schedule.id,
                          .job = id,
                          .to = waits ? LinkChange::To::waiting : LinkChange::To::live});
  if (counts(op.source))
    schedule.fired[tick.nominal.us()].push_back({.version = info.version, .job = id});
  note_fired(info, tick.nominal, id);
  return id;
}

// A lower bound of the ticks that fire from this one on: unused ids would be lost.
std::size_t PostgresStore::sure_to_fire(const Firing& firing) const {
  const FireSchedule& op = firing.op;
  const LoadedSchedule& schedule = firing.schedule;
  std::set<WallTime> nominals;
  std::size_t ticks = 0;
  for (std::size_t i = firing.at; i < op.ticks.size(); ++i) {
    if (!op.ticks[i].fire) continue;
    const WallTime nominal = nominal_of(op, op.ticks[i], now_.wall);
    const bool runs_once = counts(op.source);
    if (runs_once && (!nominals.insert(nominal).second || has_run(firing, nominal) != 0)) continue;
    ++ticks;
  }
  if (schedule.info.remaining)
    ticks = std::min(ticks, static_cast<std::size_t>(*schedule.info.remaining));
  if (op.source == TickSource::wake) return 0;
  const std::size_t free = schedule.live.empty() ? 1 : 0;
  switch (op.overlap.value_or(schedule.info.schedule.overlap)) {
    case Overlap::skip:
    case Overlap::buffer_one:
      return std::min(ticks, free);
    case Overlap::buffer_all: {
      const std::size_t waiting = std::min(schedule.waiting.size(), std::size_t{kMaxBuffered});
      return std::min(ticks, std::size_t{kMaxBuffered} - waiting + free);
    }
    case Overlap::cancel_other:
    case Overlap::terminate_other:
    case Overlap::allow:
      break;
  }
  return ticks;
}

// For a batch of ticks only, such as the leader's: reserves all ids at once.
void PostgresStore::reserve_for(std::span<const Operation> batch) {
  std::set<std::string_view> names;
  std::size_t ids = 0;
  for (const Operation& operation : batch) {
    const auto* fire = std::get_if<FireSchedule>(&operation);
    if (fire == nullptr) return;
    if (!names.insert(fire->name).second || fenced(fire->fence)) continue;
    LoadedSchedule* schedule = take_schedule(fire->name, fire->within);
    if (schedule == nullptr || check_ticks(*fire, schedule->info, now_.wall)) continue;
    ids += sure_to_fire(Firing{.op = *fire, .schedule = *schedule});
  }
  if (ids > 0) new_ids(ids);
}

void PostgresStore::write_new_links(LoadedSchedule& schedule) {
  Ints jobs, waits;
  for (const JobId id : schedule.unwritten) {
    jobs.push_back(id);
    waits.push_back(schedule.waiting.contains(id) ? 1 : 0);
  }
  schedule.unwritten.clear();
  if (!jobs.empty()) write(schedule_sql_.insert_links, params(schedule.id, jobs, waits));
}

}  // namespace mainspring::pg
