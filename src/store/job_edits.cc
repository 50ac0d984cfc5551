// Rules for changing a job.
#include "store/job_edits.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/callback.h"

namespace mainspring {
namespace {

Error conflict(std::string message) {
  return {.code = ErrorCode::conflict, .message = std::move(message)};
}

}  // namespace

Result<void> validate(const EditJob& edit) {
  if (!edit.args && !edit.priority && !edit.run_at && !edit.tags)
    return invalid("", "nothing to change: give args, priority, run_at or tags");
  NewJob job;
  job.kind = "edit";
  if (edit.args) job.args = *edit.args;
  if (edit.priority) job.priority = *edit.priority;
  if (edit.tags) job.tags = *edit.tags;
  return validate(job);
}

Result<void> check_version(std::int64_t version, const ChangedJob& job) {
  if (version == 0 || version == job.version) return {};
  return conflict(
      fmt::format("job {} has changed: it has version {}, not {}", job.id, job.version, version));
}

Result<void> check_edit(const EditJob& edit, const ChangedJob& job) {
  if (job.state == JobState::running)
    return conflict(
        fmt::format("job {} is running: it cannot be edited until its attempt has "
                    "ended",
                    job.id));
  if (is_terminal(job.state))
    return conflict(
        fmt::format("job {} is {}: it cannot be edited; clone it with other args to run it again",
                    job.id, to_string(job.state)));
  MS_TRY(check_version(edit.version, job));
  if (job.queue.starts_with(kReservedQueues) && (edit.args || edit.tags))
    return conflict(fmt::format("job {} is in queue {}: only its priority and run_at can be edited",
                                job.id, job.queue));
  if (job.step && (edit.args || edit.run_at))
    return conflict(
        fmt::format("job {} is a step of a workflow: only its priority and tags can be "
                    "edited",
                    job.id));
  if (!edit.run_at) return {};
  if (job.deferred)
    return conflict(
        fmt::format("job {} is deferred: its run_at cannot be edited; retry it to run "
                    "it",
                    job.id));
  if (job.quarantined)
    return conflict(
        fmt::format("job {} is in quarantine: its run_at cannot be edited; retry or "
                    "cancel it",
                    job.id));
  if (job.state == JobState::waiting && !job.in_session)
    return conflict(
        fmt::format("job {} waits for an earlier run of its schedule: its run_at "
                    "cannot be edited",
                    job.id));
  if (job.expires_at && *edit.run_at >= *job.expires_at)
    return conflict(
        fmt::format("job {} expires at {}: its run_at must be before that, or the job "
                    "never starts",
                    job.id, format_wall_time(*job.expires_at)));
  return {};
}

Result<void> check_delete(const DeleteJob& request, const ChangedJob& job) {
  if (!is_terminal(job.state))
    return conflict(
        fmt::format("job {} is {}: only a job that has ended can be deleted; cancel it "
                    "first",
                    job.id, to_string(job.state)));
  return check_version(request.version, job);
}

JobState state_after_edit(JobState state, WallTime run_at, WallTime now) {
  if (run_at <= now) return JobState::available;
  return state == JobState::retryable ? JobState::retryable : JobState::scheduled;
}

std::optional<WallTime> postponed_expiry(const NewJob& request, const JobTimes& old,
                                         WallTime run_at, WallTime now) {
  if (request.expires_in) return now + *request.expires_in;
  if (!old.expires_at) return std::nullopt;
  return std::max(run_at, now) + (*old.expires_at - old.run_at);
}

}  // namespace mainspring
