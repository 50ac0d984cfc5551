// Schedules: their definitions and positions. firing.cc decides their ticks.
//
// An operation that decides about a schedule locks its row first. Locked rows stay loaded in the
// transaction, so that several operations on one schedule read it once.
#include <fmt/format.h>

#include "api/schedule_shapes.h"
#include "store/common_rules.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

// Each retry means that another node created or removed it in between.
constexpr int kMaxCreateTries = 5;

std::string json_of(const Schedule& schedule) {
  std::string out;
  encode_schedule(schedule, out);
  return out;
}

}  // namespace

// -- loaded rows ------------------------------------------------------------------------------

LoadedSchedule PostgresStore::read_schedule(const Rows& rows, int row) {
  LoadedSchedule found;
  found.id = rows.integer(row, 0);
  const std::string name = rows.string(row, 1);
  auto definition = decode_schedule(rows.text(row, 3));
  if (!definition) {
    throw PgError{.sqlstate = "XX001",
                  .message = fmt::format("the store is damaged: schedule {}: {}", name,
                                         definition.error().message)};
  }
  ScheduleInfo& info = found.info;
  info.schedule = std::move(*definition);
  info.version = rows.integer(row, 2);
  info.paused = rows.integer(row, 4) != 0;
  info.paused_reason = rows.text(row, 5);
  info.next = WallTime::from_us(rows.integer(row, 6));
  info.next_fire = WallTime::from_us(rows.integer(row, 7));
  info.skip_before = WallTime::from_us(rows.integer(row, 8));
  info.skip_reason = rows.text(row, 9);
  info.remaining = rows.maybe(row, 10);
  info.fired = rows.integer(row, 11);
  if (const auto last = rows.maybe(row, 12)) info.last_fired = WallTime::from_us(*last);
  info.last_job = rows.integer(row, 13);
  if (const auto timeout = rows.maybe(row, 14)) info.timeout_override = Duration(*timeout);
  info.created_at = WallTime::from_us(rows.integer(row, 15));
  info.updated_at = WallTime::from_us(rows.integer(row, 16));
  found.next_seq = rows.integer(row, 17);
  return found;
}

void PostgresStore::keep_schedules(const Rows& rows) {
  for (int row = 0; row < rows.size(); ++row) {
    LoadedSchedule found = read_schedule(rows, row);
    const std::string name = found.info.schedule.name;
    after_.schedule_names[found.id] = name;
    after_.loaded_schedules[name] = std::move(found);
  }
}

void PostgresStore::take_schedules(const std::vector<std::string>& names) {
  std::vector<std::string> wanted;
  for (const std::string& name : names) {
    if (!after_.loaded_schedules.contains(name)) wanted.push_back(name);
  }
  if (wanted.empty()) return;
  const Rows rows = ask(schedule_sql_.lock_schedules, params(wanted));
  for (std::string& name : wanted) after_.loaded_schedules[std::move(name)];
  keep_schedules(rows);
}

void PostgresStore::take_schedules(const Ints& ids) {
  Ints wanted;
  for (const std::int64_t id : ids) {
    if (!after_.schedule_names.contains(id)) wanted.push_back(id);
  }
  if (!wanted.empty()) keep_schedules(ask(schedule_sql_.lock_schedules_by_id, params(wanted)));
  std::vector<LoadedSchedule*> all;
  for (const std::int64_t id : ids) {
    if (LoadedSchedule* schedule = known_schedule(id)) all.push_back(schedule);
  }
  know_links(all);
}

LoadedSchedule& PostgresStore::take_schedule(const std::string& name) {
  take_schedules(std::vector<std::string>{name});
  return after_.loaded_schedules[name];
}

LoadedSchedule* PostgresStore::take_schedule(const std::string& name, const Within& within) {
  LoadedSchedule& schedule = take_schedule(name);
  const bool there = schedule.id != 0 && within.has(schedule.info.schedule.job.queue);
  return there ? &schedule : nullptr;
}

// The loaded schedule, or nullptr.
LoadedSchedule* PostgresStore::known_schedule(std::int64_t id) {
  const auto name = after_.schedule_names.find(id);
  return name == after_.schedule_names.end() ? nullptr : &after_.loaded_schedules.at(name->second);
}

// -- operations -----------------------------------------------------------------------------------

OperationResult PostgresStore::operator()(const PutSchedule& op) {
  const std::string& name = op.schedule.name;
  for (int tries = 0; tries < kMaxCreateTries; ++tries) {
    LoadedSchedule& schedule = take_schedule(name);
    if (schedule.id == 0) {
      if (auto done = create_schedule(op)) return std::move(*done);
      after_.loaded_schedules.erase(name);
      continue;
    }
    ScheduleInfo& info = schedule.info;
    if (!op.within.has(info.schedule.job.queue)) {
      return Error{.code = ErrorCode::forbidden,
                   .message = fmt::format("schedule {}: there is a schedule of that name for "
                                          "another queue",
                                          name)};
    }
    if (!(info.schedule == op.schedule) || op.runs == RunCount::restart)
      return replace_schedule(schedule, op);
    if (op.paused && *op.paused != info.paused) set_paused(schedule, *op.paused, "");
    return PutScheduleResult{.version = info.version, .outcome = PutOutcome::unchanged};
  }
  return Error{.code = ErrorCode::unavailable,
               .message = fmt::format(
                   "schedule {}: other callers create and remove it at the same time", name),
               .retry_after_ms = 100};
}

// nullopt: another node has created it.
std::optional<OperationResult> PostgresStore::create_schedule(const PutSchedule& op) {
  std::int64_t count = 0;
  {
    MutexLock lock(published_mutex_);
    count = static_cast<std::int64_t>(published_schedules_.size()) + after_.schedules_made;
  }
  if (count >= kMaxSchedules) count = ask(schedule_sql_.count_schedules, {}).integer(0, 0);
  if (count >= kMaxSchedules) {
    return Error{
        .code = ErrorCode::overloaded,
        .message = fmt::format("there are {} schedules: must be at most {}", count, kMaxSchedules)};
  }
  const std::string& name = op.schedule.name;
  LoadedSchedule made;
  ScheduleInfo& info = made.info;
  define_schedule(info, op, now_.wall);
  const Rows rows = ask(schedule_sql_.insert_schedule,
                        params(name, json_of(op.schedule), op.schedule.job.queue, info.paused,
                               info.next.us(), info.next_fire.us(), info.remaining, wall()));
  if (rows.empty()) return std::nullopt;
  wrote();
  made.id = rows.integer(0, 0);
  info.version = rows.integer(0, 1);
  made.links_known = true;
  after_.schedule_names[made.id] = name;
  after_.loaded_schedules[name] = std::move(made);
  after_.schedules = true;
  ++after_.schedules_made;
  return PutScheduleResult{.version = rows.integer(0, 1), .outcome = PutOutcome::created};
}

OperationResult PostgresStore::replace_schedule(LoadedSchedule& schedule, const PutSchedule& op) {
  ScheduleInfo& info = schedule.info;
  if (const auto row = replaced_ticks(info, now_.wall)) add_ledger_rows(schedule, {*row});
  if (op.schedule.at && schedule.fired.try_emplace(op.schedule.at->us()).second)
    ask_fired({schedule.id}, {op.schedule.at->us()});
  redefine(info, op, op.schedule.at && !schedule.fired[op.schedule.at->us()].empty(), now_.wall);
  write(schedule_sql_.define_schedule,
        params(schedule.id, json_of(op.schedule), op.schedule.job.queue));
  save_schedule(schedule);
  after_.schedules = true;
  return PutScheduleResult{.version = info.version, .outcome = PutOutcome::replaced};
}

OperationResult PostgresStore::operator()(const RemoveSchedule& op) {
  LoadedSchedule* schedule = take_schedule(op.name, op.within);
  if (schedule == nullptr) return no_schedule(op.name);
  know_links({schedule});
  const std::set<JobId> waiting = schedule->waiting;
  jobs_by_id({waiting.begin(), waiting.end()});
  for (const JobId id : waiting) begin_waiting(*schedule, id);
  write(schedule_sql_.delete_schedule, params(schedule->id));
  after_.schedule_names.erase(schedule->id);
  *schedule = {};
  after_.schedules = true;
  --after_.schedules_made;
  return Done{};
}

OperationResult PostgresStore::operator()(const PauseSchedule& op) {
  LoadedSchedule* schedule = take_schedule(op.name, op.within);
  if (schedule == nullptr) return no_schedule(op.name);
  if (schedule->info.paused != op.paused) set_paused(*schedule, op.paused, op.reason);
  return Done{};
}

void PostgresStore::set_paused(LoadedSchedule& schedule, bool paused, std::string reason) {
  pause_schedule(schedule.info, paused, std::move(reason), now_.wall);
  save_schedule(schedule);
  after_.schedules = true;
}

OperationResult PostgresStore::operator()(const SetTimer& op) {
  LoadedSchedule* schedule = take_schedule(op.name, op.within);
  if (schedule == nullptr) return no_schedule(op.name);
  MS_TRY_ASSIGN(const bool changed, set_timer(schedule->info, op, now_.wall));
  if (!changed) return Done{};
  save_schedule(*schedule);
  after_.schedules = true;
  return Done{};
}

void PostgresStore::save_schedule(const LoadedSchedule& schedule) {
  const ScheduleInfo& info = schedule.info;
  Params all = params(schedule.id, info.version, info.paused);
  all.text_or_null(info.paused_reason)
      .add(info.next.us())
      .add(info.next_fire.us())
      .add(info.skip_before.us())
      .text_or_null(info.skip_reason)
      .add(info.remaining)
      .add(info.fired)
      .add(info.last_fired ? std::optional(info.last_fired->us()) : std::nullopt)
      .add(info.last_job)
      .add(info.timeout_override ? std::optional<std::int64_t>(info.timeout_override->count())
                                 : std::nullopt)
      .add(info.updated_at.us())
      .add(schedule.next_seq);
  write(schedule_sql_.save_schedule, all);
}

// -- the ledger -----------------------------------------------------------------------------------

// The caller must save the schedule afterwards.
void PostgresStore::add_ledger_rows(LoadedSchedule& schedule, const std::vector<LedgerRow>& rows) {
  if (rows.empty()) return;
  Ints seq, version, nominal, count, source, state, past_due;
  OptInts until, job;
  Texts reason, note;
  const auto text = [](const std::string& t) {
    return t.empty() ? std::nullopt : std::optional<std::string_view>(t);
  };
  for (const LedgerRow& row : rows) {
    seq.push_back(schedule.next_seq++);
    version.push_back(row.version);
    nominal.push_back(row.nominal.us());
    until.push_back(row.until ? std::optional(row.until->us()) : std::nullopt);
    count.push_back(row.count);
    source.push_back(static_cast<int>(row.source));
    state.push_back(static_cast<int>(row.state));
    past_due.push_back(row.past_due ? 1 : 0);
    job.push_back(row.job != 0 ? std::optional(row.job) : std::nullopt);
    reason.push_back(text(row.reason));
    note.push_back(text(row.note));
  }
  write(schedule_sql_.insert_ticks, params(schedule.id, wall(), seq, version, nominal, until, count,
                                           source, state, past_due, job, reason, note));
  const std::int64_t last = schedule.next_seq - 1;
  if (last > kLedgerRows)
    write(schedule_sql_.delete_ticks, params(schedule.id, last - kLedgerRows));
}

// -- several operations at once -------------------------------------------------------------------

// Locks in the order in which operations lock these rows, each kind by name or id, so that nodes
// rarely deadlock: leases, jobs that ticks end, schedules.
void PostgresStore::look_ahead(std::span<const Operation> batch) {
  std::vector<std::string> leases, fences, schedules, ending;
  const auto look = [&](const Operation& operation) {
    if (const auto* acquire = std::get_if<AcquireLease>(&operation)) {
      leases.push_back(acquire->name);
    } else if (const auto* renew = std::get_if<RenewLease>(&operation)) {
      leases.push_back(renew->name);
    } else if (const auto* release = std::get_if<ReleaseLease>(&operation)) {
      leases.push_back(release->name);
    } else if (const auto* fire = std::get_if<FireSchedule>(&operation)) {
      schedules.push_back(fire->name);
      if (!fire->fence.lease.empty()) fences.push_back(fire->fence.lease);
      if (ends_others(*fire)) ending.push_back(fire->name);
    } else if (const auto* put = std::get_if<PutSchedule>(&operation)) {
      schedules.push_back(put->schedule.name);
    } else if (const auto* remove = std::get_if<RemoveSchedule>(&operation)) {
      schedules.push_back(remove->name);
    } else if (const auto* pause = std::get_if<PauseSchedule>(&operation)) {
      schedules.push_back(pause->name);
    } else if (const auto* timer = std::get_if<SetTimer>(&operation)) {
      schedules.push_back(timer->name);
    }
  };
  make_kinds(batch);
  lock_sessions(batch);
  for (const Operation& operation : batch) look(operation);
  if (leases.size() + fences.size() > 1) take_leases(leases, LeaseLock::exclusive);
  locks_asked_ = false;
  lock_named_jobs(batch);
  lock_workflows(batch);
  look_for_watches(batch);     // after the locks: a trigger created while they are waited for fires
  if (locks_asked_) settle();  // one round trip for all locks
  lock_triggers(batch);
  if (schedules.size() < 2) return;
  take_leases(fences, LeaseLock::shared);
  know_others(ending);
  take_schedules(schedules);
  std::vector<LoadedSchedule*> overlapping;
  Ints ids, nominals;
  for (const Operation& operation : batch) {
    const auto* fire = std::get_if<FireSchedule>(&operation);
    if (fire == nullptr) continue;
    const auto found = after_.loaded_schedules.find(fire->name);
    if (found == after_.loaded_schedules.end() || found->second.id == 0) continue;
    if (minds_others(*fire, found->second)) overlapping.push_back(&found->second);
    add_unknown_ticks(*fire, found->second, ids, nominals);
  }
  know_links(overlapping);
  ask_fired(ids, nominals);
  reserve_for(batch);
}

}  // namespace mainspring::pg
