// Operator actions on jobs: cancel, retry, redrive.
#include <fmt/format.h>

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

OperationResult PostgresStore::operator()(const Cancel& op) {
  LoadedJob* held = job(op.id);
  if (held == nullptr) return missing(op.id);
  if (!op.within.has(queue_name(held->row.queue))) return no_job(op.id);
  if (auto other = has_another_version(held->row, op.version)) return std::move(*other);
  switch (held->row.state) {
    case JobState::cancelled:
      return CancelResult{};
    case JobState::completed:
    case JobState::dead:
      return Error{
          .code = ErrorCode::conflict,
          .message = fmt::format("job {} is {}: only a job that has not ended can be cancelled",
                                 op.id, to_string(held->row.state))};
    case JobState::running:
      request_cancel(*held, op.reason);
      return CancelResult{
          .state = JobState::running, .cancel_requested = true, .worker = held->row.worker};
    default:
      end_job(*held, JobState::cancelled, op.reason, "");
      return CancelResult{};
  }
}

void PostgresStore::request_cancel(LoadedJob& job, std::string_view reason) {
  if ((job.row.flags & kFlagCancel) != 0) return;
  touch(job).flags |= kFlagCancel | kFlagExtras;
  write(sql_.upsert_wish, params(job.row.id, reason));
}

OperationResult PostgresStore::operator()(const RetryJob& op) {
  LoadedJob* held = job(op.id);
  if (held == nullptr) return missing(op.id);
  if (!op.within.has(queue_name(held->row.queue))) return no_job(op.id);
  if (auto other = has_another_version(held->row, op.version)) return std::move(*other);
  if (op.take_back) return take_back(*held);
  if (held->row.state == JobState::running) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {} is running: it cannot be retried", op.id)};
  }
  if (held->row.state == JobState::completed) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("job {} is completed: enqueue a new job, or clone it", op.id)};
  }
  if (held->row.state == JobState::waiting && (held->row.flags & kFlagSession) != 0) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {} waits in session \"{}\": it cannot "
                                        "be retried",
                                        op.id, held->row.session)};
  }
  const bool set_aside = held->row.deferred || held->row.quarantined != 0;
  if ((held->row.flags & kFlagStep) != 0 && !set_aside) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("job {} belongs to a workflow: retry the workflow instead", op.id)};
  }
  if (!take_unique_key(*held)) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {}: another live job has its unique key now", op.id)};
  }
  const bool lost = held->row.quarantined != 0 || held->row.lost != 0;
  if (held->row.state != JobState::available || lost) revive(*held);
  return RetryResult{.state = held->row.state};
}

OperationResult PostgresStore::take_back(LoadedJob& held) {
  const JobRow& row = held.row;
  if (row.state != JobState::running) return not_to_take_back(row.id, row.state);
  if ((row.flags & kFlagStep) != 0) held.row.flags |= kFlagUnknown;
  note_for_breaker(row, Snooze{});
  finish_one(held, Snooze{});
  if (!is_terminal(row.state)) after_.again.push_back(row.id);
  return RetryResult{.state = row.state};
}

OperationResult PostgresStore::operator()(const Redrive& op) {
  RedriveResult result;
  std::optional<std::int64_t> queue, kind;
  if (!op.filter.queue.empty()) {
    const QueueInfo* found = find_queue(op.filter.queue);
    if (found == nullptr) return result;
    queue = found->id;
  }
  if (!op.filter.kind.empty()) {
    const auto found = kinds_by_name_.find(op.filter.kind);
    if (found == kinds_by_name_.end()) return result;
    kind = found->second;
  }
  flush();
  Params p = params(op.after, queue, kind);
  p.text_or_null(op.filter.tag).add(std::int64_t{op.limit} + 1);
  const Rows rows = ask(sql_.dead_jobs, p);
  std::vector<JobId> ids;
  for (int i = 0; i < rows.size(); ++i) ids.push_back(rows.integer(i, 0));
  std::set<SessionName> sessions;
  for (const SessionOfJob& of : sessions_of(ids)) {
    if (of.own) sessions.insert(of.name);
  }
  if (!sessions.empty()) take_sessions(sessions);
  if (static_cast<int>(ids.size()) > op.limit) {
    ids.pop_back();
    result.next = ids.empty() ? op.after : ids.back();
  }
  jobs_by_id(ids);
  for (const JobId id : ids) {
    LoadedJob* held = job(id);
    if (held == nullptr || held->row.state != JobState::dead) continue;
    if ((held->row.flags & kFlagStep) != 0) continue;
    const std::string& name = queue_name(held->row.queue);
    if (!op.within.has(name) || !op.filter.within.has(name)) continue;
    if (!take_unique_key(*held)) continue;
    revive(*held);
    ++result.redriven;
    result.ids.push_back(id);
  }
  return result;
}

}  // namespace mainspring::pg
