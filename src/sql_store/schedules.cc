// Schedules: their definitions and positions. firing.cc decides their ticks.
#include <fmt/format.h>

#include "api/schedule_shapes.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "store/common_rules.h"

namespace mainspring::sql {
namespace {

std::string json_of(const Schedule& schedule) {
  std::string out;
  encode_schedule(schedule, out);
  return out;
}

void publish_changes(const ScheduleState& state, const TouchedSchedule& touched,
                     PublishedSchedule& seen) {
  if (touched.info) seen.info = state.info;
  for (const auto& [id, lives] : touched.live) {
    if (lives) {
      seen.live.insert(id);
    } else {
      seen.live.erase(id);
    }
  }
}

ScheduleInfo whole_schedule(const PublishedSchedule& published) {
  ScheduleInfo info = published.info;
  info.live.assign(published.live.begin(), published.live.end());
  return info;
}

ScheduleInfo read_schedule(const Statement& row) {
  const std::string name(row.text(1));
  auto definition = decode_schedule(row.text(3));
  if (!definition) {
    throw damaged(
        fmt::format("the store is damaged: schedule {}: {}", name, definition.error().message));
  }
  ScheduleInfo info;
  info.schedule = std::move(*definition);
  info.version = row.integer(2);
  info.paused = row.integer(4) != 0;
  info.paused_reason = row.text(5);
  info.next = WallTime::from_us(row.integer(6));
  info.next_fire = WallTime::from_us(row.integer(7));
  info.skip_before = WallTime::from_us(row.integer(8));
  info.skip_reason = row.text(9);
  if (!row.is_null(10)) info.remaining = row.integer(10);
  info.fired = row.integer(11);
  if (!row.is_null(12)) info.last_fired = WallTime::from_us(row.integer(12));
  info.last_job = row.integer(13);
  if (!row.is_null(14)) info.timeout_override = Duration(row.integer(14));
  info.created_at = WallTime::from_us(row.integer(15));
  info.updated_at = WallTime::from_us(row.integer(16));
  return info;
}

}  // namespace

ScheduleState* SqlStore::find_schedule(const std::string& name) {
  const auto found = schedules_.find(name);
  return found == schedules_.end() ? nullptr : &found->second;
}

ScheduleState* SqlStore::find_schedule(const std::string& name, const Within& within) {
  ScheduleState* state = find_schedule(name);
  return state != nullptr && within.has(state->info.schedule.job.queue) ? state : nullptr;
}

OperationResult SqlStore::operator()(const PutSchedule& op) {
  ScheduleState* state = find_schedule(op.schedule.name);
  if (state == nullptr) return create_schedule(op);
  if (!op.within.has(state->info.schedule.job.queue)) {
    return Error{.code = ErrorCode::forbidden,
                 .message = fmt::format("schedule {}: there is a schedule of that name for another "
                                        "queue",
                                        op.schedule.name)};
  }
  if (!(state->info.schedule == op.schedule) || op.runs == RunCount::restart)
    return replace_schedule(*state, op);
  if (op.paused && *op.paused != state->info.paused) set_paused(*state, *op.paused, "");
  return PutScheduleResult{.version = state->info.version, .outcome = PutOutcome::unchanged};
}

OperationResult SqlStore::create_schedule(const PutSchedule& op) {
  if (schedules_.size() >= std::size_t{kMaxSchedules}) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("there are {} schedules: must be at most {}",
                                        schedules_.size(), kMaxSchedules)};
  }
  begin_write();
  const std::string& name = op.schedule.name;
  ScheduleState& state = schedules_[name];
  ScheduleInfo& info = state.info;
  {
    Statement& removed = schedule_sql_->select_removed;
    removed.bind(name);
    ResetGuard guard(removed);
    if (removed.step() && !MS_MUTANT(version_given_again)) info.version = removed.integer(0) + 1;
  }
  if (info.version > 1) schedule_sql_->delete_removed.bind(name).run();
  define_schedule(info, op, now_.wall);
  state.id = schedule_sql_->insert.bind(name, info.version, json_of(op.schedule), now_.wall.us())
                 .run_returning();
  schedules_by_id_.emplace(state.id, &state);
  list(state);
  save_schedule(state);
  touched_schedules_[name].redefined = true;
  return PutScheduleResult{.version = info.version, .outcome = PutOutcome::created};
}

OperationResult SqlStore::replace_schedule(ScheduleState& state, const PutSchedule& op) {
  begin_write();
  ScheduleInfo& info = state.info;
  if (const auto row = replaced_ticks(info, now_.wall)) add_row(state, *row);
  unlist(state);
  redefine(info, op, op.schedule.at && fired_as(state, *op.schedule.at, std::nullopt) != 0,
           now_.wall);
  list(state);
  schedule_sql_->update_definition.bind(state.id, json_of(op.schedule)).run();
  save_schedule(state);
  return PutScheduleResult{.version = info.version, .outcome = PutOutcome::replaced};
}

OperationResult SqlStore::operator()(const RemoveSchedule& op) {
  ScheduleState* state = find_schedule(op.name, op.within);
  if (state == nullptr) return no_schedule(op.name);
  begin_write();
  const std::set<JobId> waiting = state->waiting;
  for (const JobId id : waiting) begin_waiting(id, *state);
  for (const JobId id : state->live) {
    schedule_sql_->delete_link.bind(id).run();
    linked_jobs_.erase(id);
  }
  schedule_sql_->delete_ledger.bind(state->id).run();
  schedule_sql_->insert_removed.bind(op.name, state->info.version).run();
  schedule_sql_->remove.bind(state->id).run();
  unlist(*state);
  schedules_by_id_.erase(state->id);
  touched_schedules_[op.name].redefined = true;
  schedules_.erase(op.name);
  return Done{};
}

OperationResult SqlStore::operator()(const PauseSchedule& op) {
  ScheduleState* state = find_schedule(op.name, op.within);
  if (state == nullptr) return no_schedule(op.name);
  if (state->info.paused != op.paused) set_paused(*state, op.paused, op.reason);
  return Done{};
}

void SqlStore::set_paused(ScheduleState& state, bool paused, std::string reason) {
  unlist(state);
  pause_schedule(state.info, paused, std::move(reason), now_.wall);
  list(state);
  save_schedule(state);
}

OperationResult SqlStore::operator()(const SetTimer& op) {
  ScheduleState* state = find_schedule(op.name, op.within);
  if (state == nullptr) return no_schedule(op.name);
  MS_TRY_ASSIGN(const bool changed, set_timer(state->info, op, now_.wall));
  if (changed) save_schedule(*state);
  return Done{};
}

void SqlStore::save_schedule(const ScheduleState& state) {
  begin_write();
  const ScheduleInfo& info = state.info;
  const auto last =
      info.last_fired ? std::optional<std::int64_t>(info.last_fired->us()) : std::nullopt;
  const auto timeout = info.timeout_override
                           ? std::optional<std::int64_t>(info.timeout_override->count())
                           : std::nullopt;
  schedule_sql_->update
      .bind(state.id, info.version, info.paused ? 1 : 0,
            Statement::text_or_null(info.paused_reason), info.next.us(), info.next_fire.us(),
            info.skip_before.us(), Statement::text_or_null(info.skip_reason), info.remaining,
            info.fired, last, info.last_job, timeout, info.updated_at.us(), state.next_seq)
      .run();
  touched_schedules_[info.schedule.name].info = true;
}

void SqlStore::unlist(const ScheduleState& state) {
  fire_order_.erase({state.info.next_fire, state.id});
}

void SqlStore::list(const ScheduleState& state) {
  if (!state.info.paused && state.info.next_fire != WallTime::never())
    fire_order_.emplace(state.info.next_fire, state.id);
}

void SqlStore::load_schedules() {
  schedules_.clear();
  schedules_by_id_.clear();
  linked_jobs_.clear();
  fire_order_.clear();
  touched_schedules_.clear();
  Statement rows(db_, queries::schedules::load);
  while (rows.step()) {
    ScheduleState& state = schedules_[std::string(rows.text(1))];
    state.id = rows.integer(0);
    state.info = read_schedule(rows);
    state.next_seq = rows.integer(17);
    schedules_by_id_.emplace(state.id, &state);
    list(state);
    touched_schedules_[state.info.schedule.name].redefined = true;
  }
}

void SqlStore::load_links() {
  Statement links(db_, queries::schedules::load_links);
  while (links.step()) {
    const auto found = schedules_by_id_.find(links.integer(1));
    if (found == schedules_by_id_.end()) {
      throw damaged(
          fmt::format("the store is damaged: a job of the missing schedule {}", links.integer(1)));
    }
    ScheduleState& state = *found->second;
    const bool waits = links.integer(2) != 0;  // a deferred job is live
    (waits ? state.waiting : state.live).insert(links.integer(0));
    linked_jobs_.emplace(links.integer(0), &state);
  }
}

// -- reads
// -----------------------------------------------------------------------------------------

void SqlStore::publish_schedules() {
  if (republish_) {
    published_schedules_.clear();
    published_due_.clear();
  }
  for (const auto& [name, touched] : touched_schedules_) {
    const auto old = published_schedules_.find(name);
    if (old != published_schedules_.end()) published_due_.erase({old->second.info.next_fire, name});
    const auto found = schedules_.find(name);
    if (found == schedules_.end()) {
      if (old != published_schedules_.end()) published_schedules_.erase(old);
      continue;
    }
    const ScheduleState& state = found->second;
    PublishedSchedule& seen = published_schedules_[name];
    if (touched.redefined) {
      seen = {.info = state.info, .live = state.live};
    } else {
      publish_changes(state, touched, seen);
    }
    seen.info.buffered = static_cast<int>(state.waiting.size());
    if (!seen.info.paused && seen.info.next_fire != WallTime::never())
      published_due_.emplace(seen.info.next_fire, name);
  }
  touched_schedules_.clear();
}

Result<ScheduleInfo> SqlStore::schedule(const std::string& name) const {
  MutexLock lock(published_mutex_);
  const auto found = published_schedules_.find(name);
  if (found == published_schedules_.end()) return no_schedule(name);
  return whole_schedule(found->second);
}

Result<std::vector<ScheduleInfo>> SqlStore::schedules(const std::string& after, int limit) const {
  MutexLock lock(published_mutex_);
  std::vector<ScheduleInfo> out;
  for (auto it = published_schedules_.upper_bound(after);
       it != published_schedules_.end() && static_cast<int>(out.size()) < limit; ++it)
    out.push_back(whole_schedule(it->second));
  return out;
}

Result<std::vector<ScheduleInfo>> SqlStore::due_schedules(WallTime now, int limit) const {
  MutexLock lock(published_mutex_);
  std::vector<ScheduleInfo> out;
  for (const auto& [next_fire, name] : published_due_) {
    if (next_fire > now || static_cast<int>(out.size()) == limit) break;
    out.push_back(published_schedules_.at(name).info);
  }
  return out;
}

}  // namespace mainspring::sql
