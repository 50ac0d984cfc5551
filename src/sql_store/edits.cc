// Edits and deletes of single jobs.
#include "base/mutant.h"
#include "sql_store/store_impl.h"
#include "store/job_edits.h"

namespace mainspring::sql {
namespace {

ChangedJob changed_job(const HotRow& hot) {
  const bool expires = hot.expires_at && !hot.started_at;
  return {.id = hot.id,
          .state = hot.state,
          .version = hot.version,
          .queue = hot.queue->name,
          .in_session = (hot.flags & kFlagSession) != 0,
          .deferred = (hot.flags & kFlagDeferred) != 0,
          .quarantined = (hot.flags & kFlagQuarantined) != 0,
          .step = (hot.flags & kFlagStep) != 0,
          .expires_at = expires ? std::optional(WallTime::from_us(*hot.expires_at)) : std::nullopt};
}

ChangedJob running_job(JobId id, const Lease& lease) {
  return {
      .id = id, .state = JobState::running, .version = lease.version, .queue = lease.queue->name};
}

}  // namespace

std::optional<Error> SqlStore::has_another_version(JobId id, std::int64_t version) {
  if (version == 0) return std::nullopt;
  ChangedJob job{.id = id};
  const auto lease = leases_.find(id);
  if (lease != leases_.end()) {
    job = running_job(id, lease->second);
  } else {
    const auto hot = load_hot(id);
    if (!hot) return std::nullopt;  // the caller reports that it is missing
    job = changed_job(*hot);
  }
  const auto good = check_version(version, job);
  return good ? std::nullopt : std::optional<Error>(good.error());
}

OperationResult SqlStore::operator()(const EditJob& op) {
  if (const auto good = validate(op); !good) return good.error();
  const auto lease = leases_.find(op.id);
  if (lease != leases_.end()) {
    if (!op.within.has(lease->second.queue->name)) return no_job(op.id);
    return check_edit(op, running_job(op.id, lease->second)).error();
  }
  auto hot = load_hot(op.id);
  if (!hot) return missing(op.id);
  if (!op.within.has(hot->queue->name)) return no_job(op.id);
  if (const auto good = check_edit(op, changed_job(*hot)); !good) return good.error();
  edit_hot(*hot, op);
  return EditResult{.state = hot->state};
}

// The job has new args: nothing that attempts with the old ones left reaches the next attempt. The
// errors stay, for people. The caller writes the row.
void SqlStore::forget_attempts(HotRow& hot, std::optional<int> max_attempts) {
  if (MS_MUTANT(new_args_keep_attempts)) return;
  drop_memos(hot.id, hot.flags);
  if ((hot.flags & kFlagExtras) != 0) sql_->forget_extras.bind(hot.id).run();
  if ((hot.flags & kFlagQuarantined) == 0) hot.flags &= ~(kLostFlags | kUnstartedFlags);
  hot.attempt = 0;
  Statement& body = sql_->select_body;
  body.bind(hot.id);
  ResetGuard guard(body);
  if (max_attempts || body.step())
    hot.max_attempts = max_attempts ? *max_attempts : static_cast<int>(body.integer(0));
}

void SqlStore::edit_hot(HotRow& hot, const EditJob& op) {
  begin_write();
  leave(hot);
  count(*hot.queue, hot.state, hot.flags, -1);
  if (op.priority) hot.priority = *op.priority;
  if (op.run_at) {
    hot.run_at = *op.run_at;
    hot.state = state_in_session(hot, state_after_edit(hot.state, hot.run_at, now_.wall));
  }
  if (op.args || op.tags) {
    const auto args = op.args ? std::optional<std::string_view>(*op.args) : std::nullopt;
    const std::string tags = op.tags ? join_tags(*op.tags) : "";
    if (op.args) unindex_args(*hot.queue, hot.id);
    sql_->edit_body.bind(hot.id, args, op.tags ? 1 : 0, Statement::text_or_null(tags)).run();
    bodies_.drop(hot.id);
    if (op.args) index_args(*hot.queue, hot.id, *op.args);
  }
  if (op.args) forget_attempts(hot, std::nullopt);
  ++hot.version;
  save_hot(hot);
  enter(hot);
  count(*hot.queue, hot.state, hot.flags, 1);
}

OperationResult SqlStore::operator()(const DeleteJob& op) {
  const auto lease = leases_.find(op.id);
  if (lease != leases_.end()) {
    if (!op.within.has(lease->second.queue->name)) return no_job(op.id);
    return check_delete(op, running_job(op.id, lease->second)).error();
  }
  const auto hot = load_hot(op.id);
  if (!hot) return missing(op.id);
  if (!op.within.has(hot->queue->name)) return no_job(op.id);
  if (const auto good = check_delete(op, changed_job(*hot)); !good) return good.error();
  begin_write();
  prune_one(op.id, hot->finished_at.value_or(0));
  return Done{};
}

}  // namespace mainspring::sql
