// Operator actions on jobs and queues: cancel, retry, redrive, pause, retention.
#include <fmt/format.h>

#include "api/audit_images.h"
#include "api/pause_shapes.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

OperationResult SqlStore::operator()(const Cancel& op) {
  const auto lease = leases_.find(op.id);
  if (lease != leases_.end()) {
    if (!op.within.has(lease->second.queue->name)) return no_job(op.id);
    if (auto other = has_another_version(op.id, op.version)) return std::move(*other);
    request_cancel(op.id, lease->second, op.reason);
    return CancelResult{.state = JobState::running,
                        .cancel_requested = true,
                        .worker = lease->second.grant->worker};
  }
  auto hot = load_hot(op.id);
  if (!hot) return missing(op.id);
  if (!op.within.has(hot->queue->name)) return no_job(op.id);
  if (auto other = has_another_version(op.id, op.version)) return std::move(*other);
  if (hot->state == JobState::cancelled) return CancelResult{};
  if (is_terminal(hot->state)) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("job {} is {}: only a job that has not ended can be cancelled",
                               op.id, to_string(hot->state))};
  }
  cancel_hot(*hot, op.reason);
  return CancelResult{};
}

void SqlStore::request_cancel(JobId id, Lease& lease, const std::string& reason) {
  if (lease.cancel_requested) return;
  begin_write();
  lease.cancel_requested = true;
  lease.cancel_reason = reason;
  note_lease(id, lease);
}

void SqlStore::cancel_hot(HotRow& hot, std::string_view reason) {
  end_hot(hot, JobState::cancelled, reason, 0);
}

void SqlStore::end_hot(HotRow& hot, JobState state, std::string_view reason, int flags) {
  begin_write();
  leave(hot);
  count(*hot.queue, hot.state, hot.flags, -1);
  hot.state = state;
  leave_quarantine(hot.id, *hot.queue, hot.flags);
  hot.flags = (hot.flags & ~kFlagDeferred) | flags;
  hot.finished_at = now_.wall.us();
  ++hot.version;
  set_reason(hot.id, hot.flags, reason, "");
  save_hot(hot);
  count(*hot.queue, hot.state, hot.flags, 1);
  end_job(hot.id, *hot.queue, hot.state, hot.flags);
}

OperationResult SqlStore::operator()(const RetryJob& op) {
  const auto lease = leases_.find(op.id);
  if (lease != leases_.end()) {
    if (!op.within.has(lease->second.queue->name)) return no_job(op.id);
    if (op.take_back) return take_back(op, lease->second);
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {} is running: it cannot be retried", op.id)};
  }
  auto hot = load_hot(op.id);
  if (!hot) return missing(op.id);
  if (!op.within.has(hot->queue->name)) return no_job(op.id);
  if (auto other = has_another_version(op.id, op.version)) return std::move(*other);
  if (op.take_back) return not_to_take_back(op.id, hot->state);
  if (hot->state == JobState::completed) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("job {} is completed: enqueue a new job, or clone it", op.id)};
  }
  if (hot->state == JobState::waiting && (hot->flags & kFlagSession) != 0) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "job {} waits in its session: cancel or resume the jobs before it", op.id)};
  }
  if ((hot->flags & kFlagStep) != 0 && (hot->flags & (kFlagDeferred | kFlagQuarantined)) == 0) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("job {} belongs to a workflow: retry the workflow instead", op.id)};
  }
  if (!take_unique_key(*hot)) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {}: another live job has its unique key now", op.id)};
  }
  const bool lost = (hot->flags & (kFlagQuarantined | kLostFlags)) != 0;
  if (hot->state != JobState::available || lost) retry_hot(*hot);
  return RetryResult{.state = hot->state};
}

OperationResult SqlStore::take_back(const RetryJob& op, Lease& lease) {
  if (auto other = has_another_version(op.id, op.version)) return std::move(*other);
  begin_write();
  if ((lease.flags & kFlagStep) != 0) lease.flags |= kFlagUnknown;
  finish_lease(op.id, lease, Snooze{});
  const JobState state = state_of(op.id);
  if (!is_terminal(state)) again_.push_back(op.id);
  return RetryResult{.state = state};
}

bool SqlStore::take_unique_key(const HotRow& hot) {
  if (MS_MUTANT(retry_ignores_unique)) return true;
  if ((hot.flags & kFlagUnique) == 0 || !is_terminal(hot.state)) return true;
  std::string key;
  {
    Statement& body = sql_->select_body;
    body.bind(hot.id);
    ResetGuard guard(body);
    if (body.step()) key = body.text(1);
  }
  Statement& row = sql_->select_unique;
  row.bind(hot.queue->id, key);
  const bool found = row.step();
  const JobId holder = found ? row.integer(0) : hot.id;
  const std::int64_t until = found ? row.integer(1) : 0;
  if (found && !row.is_null(2)) finished_touched_ = true;  // pruning need not consider the row
  row.reset();
  if (found && holder == hot.id) return true;
  if (leases_.contains(holder)) return false;
  const auto other = holder == hot.id ? std::nullopt : load_hot(holder);
  if (other && !is_terminal(other->state)) return false;
  begin_write();
  sql_->upsert_unique.bind(hot.queue->id, key, hot.id, until).run();
  return true;
}

void SqlStore::retry_hot(HotRow& hot) {
  begin_write();
  again_.push_back(hot.id);
  leave(hot);
  count(*hot.queue, hot.state, hot.flags, -1);
  std::int64_t schedule = 0;
  const bool revived = is_terminal(hot.state);
  if (revived) {
    if (hot.state == JobState::dead) sql_->delete_dead.bind(hot.id).run();
    Statement& body = sql_->select_body;
    body.bind(hot.id);
    ResetGuard guard(body);
    const bool found = body.step();
    const int budget = found ? static_cast<int>(body.integer(0)) : hot.max_attempts;
    if (found) schedule = body.integer(2);
    if (!MS_MUTANT(retry_gives_no_attempts)) hot.max_attempts = hot.attempt + budget;
    hot.finished_at.reset();
    set_reason(hot.id, hot.flags, "", "");
    add_live(hot.id, 1);
  }
  undefer(hot);
  leave_quarantine(hot.id, *hot.queue, hot.flags);
  hot.flags &= ~kFlagExpired;
  if (MS_MUTANT(retried_not_followed)) hot.flags &= ~kFlagFollowed;
  hot.expires_at.reset();
  hot.state = revived && (hot.flags & kFlagSession) != 0
                  ? join_session(session_of(*hot.queue, session_key_of_job(hot.id)), hot.id,
                                 JobState::available)
                  : state_in_session(hot, JobState::available);
  hot.run_at = now_.wall;
  ++hot.version;
  save_hot(hot);
  enter(hot);
  count(*hot.queue, hot.state, hot.flags, 1);
  relink(hot.id, schedule);
}

OperationResult SqlStore::operator()(const Redrive& op) {
  RedriveResult result;
  std::optional<std::int64_t> queue, kind;
  if (!op.filter.queue.empty()) {
    const QueueState* found = find_queue(op.filter.queue);
    if (found == nullptr) return result;
    queue = found->id;
  }
  if (!op.filter.kind.empty()) {
    const auto found = kinds_by_name_.find(op.filter.kind);
    if (found == kinds_by_name_.end()) return result;
    kind = found->second;
  }
  std::optional<std::string> tag;
  if (!op.filter.tag.empty()) tag = kTagSeparator + op.filter.tag + kTagSeparator;
  std::vector<JobId> ids;
  {
    Statement& rows = sql_->select_dead;
    rows.bind(op.after, queue, kind, tag, op.limit + 1);
    ResetGuard guard(rows);
    while (rows.step()) ids.push_back(rows.integer(0));
  }
  if (static_cast<int>(ids.size()) > op.limit) {
    ids.pop_back();
    result.next = ids.empty() ? op.after : ids.back();
  }
  for (const JobId id : ids) {
    auto hot = load_hot(id);
    if (!hot || hot->state != JobState::dead || (hot->flags & kFlagStep) != 0) continue;
    const std::string& name = hot->queue->name;
    if (!op.within.has(name) || !op.filter.within.has(name)) continue;
    if (take_unique_key(*hot)) {
      retry_hot(*hot);
      ++result.redriven;
    } else if (!MS_MUTANT(redrive_names_all)) {
      continue;
    }
    result.ids.push_back(id);
  }
  return result;
}

OperationResult SqlStore::operator()(const PauseQueue& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  QueueState& queue = queue_of(op.queue);
  std::optional<QueuePause> pause;
  if (op.paused) pause = QueuePause{op.reason, op.by, now_.wall, op.until};
  if (pause && queue.pause) pause->at = queue.pause->at;
  const bool same = queue.paused == op.paused && queue.pause == pause;
  if (same && !queue.is_removed()) return Done{};
  if (pause) pause->at = now_.wall;
  begin_write();
  queue.removed = false;
  set_pause(queue, std::move(pause));
  if (!op.paused) open_queue(queue);
  touch(queue);
  save_queue(queue);
  return Done{};
}

void SqlStore::set_pause(QueueState& queue, std::optional<QueuePause> pause) {
  if (queue.pause && queue.pause->until) pause_ends_.erase({*queue.pause->until, queue.name});
  queue.paused = pause.has_value();
  queue.pause = std::move(pause);
  if (queue.pause && queue.pause->until) pause_ends_.emplace(*queue.pause->until, queue.name);
}

void SqlStore::load_pause(QueueState& queue, std::string_view text) {
  auto pause = parse_pause(text);
  if (!pause) throw damaged(pause.error().message);
  if (queue.paused) set_pause(queue, pause->value_or(QueuePause{}));
}

// Resumes queues whose pause has ended; returns how many.
int SqlStore::resume_queues(int limit) {
  int resumed = 0;
  while (!pause_ends_.empty() && pause_ends_.begin()->first <= now_.wall && resumed < limit) {
    QueueState& queue = *find_queue(pause_ends_.begin()->second);
    const AuditObject object{.kind = AuditObject::Kind::queue, .name = queue.name};
    std::string before = image_of(object);
    begin_write();
    set_pause(queue, std::nullopt);
    open_queue(queue);
    save_queue(queue);
    append_audit(audit_record(resumed_by_itself(queue.name), std::move(before), image_of(object),
                              now_.wall));
    resumed_.push_back(queue.name);
    ++resumed;
  }
  return resumed;
}

OperationResult SqlStore::operator()(const WriteProbe&) {
  begin_write();
  marks_touched_ = true;
  return Done{};
}

OperationResult SqlStore::operator()(const SetRetention& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  QueueState& queue = queue_of(op.queue);
  begin_write();
  queue.retention_completed = op.completed;
  queue.retention_dead = op.dead;
  queue.removed = false;
  touch(queue);
  save_queue(queue);
  return Done{};
}

}  // namespace mainspring::sql
