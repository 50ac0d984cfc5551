// Deferred jobs, claims by id and failed attempts of the model store.
#pragma once

#include <fmt/format.h>

#include "conformance/model_limits.h"
#include "conformance/model_quarantine.h"
#include "model/named_claim.h"

namespace mainspring {

// The job continues or ends.
inline void undefer(Job& job) {
  if (!job.deferred) return;
  job.deferred = false;
  job.reason.clear();
}

inline NamedJob named_of(const Record& r) {
  const Job& j = r.job;
  NamedJob named{.id = j.id,
                 .state = j.state,
                 .deferred = j.deferred,
                 .quarantined = ModelQuarantine::waits(j),
                 .queue = j.queue,
                 .session = j.session,
                 .worker = j.worker};
  if (can_expire(r)) named.expires_at = j.expires_at;
  return named;
}

inline Result<void> may_begin(const NamedJob& named, const Job& j, const ModelLimits& limits,
                              const ModelQuarantine& quarantine, WallTime now) {
  return check_room(named, {.paused = limits.is_paused(j.queue),
                            .queue = limits.fits(j, now) ? 1 : 0,
                            .limit_key = limits.fits_key(j) ? 1 : 0,
                            .quarantine = quarantine.is_taken(j.queue) ? 0 : 1,
                            .cost = limits.cost(j)});
}

// For the current attempt, which failed.
inline AttemptError error_of(const Record& r, std::string message, const ProgramEnd& program,
                             Now now) {
  return {.attempt = r.job.attempt,
          .at = now.wall,
          .worker = r.job.worker,
          .message = std::move(message),
          .ran_for = now.instant - r.claimed,
          .program = program};
}

// For a job that has just started.
inline ClaimedJob as_claimed(const Record& r, Duration lease, std::string session_state, int cost) {
  const Job& j = r.job;
  return {.id = j.id,
          .token = j.token,
          .attempt = j.attempt,
          .max_attempts = j.max_attempts,
          .queue = j.queue,
          .kind = j.kind,
          .args = j.args,
          .priority = j.priority,
          .run_at = j.run_at,
          .timeout = j.timeout,
          .lease = lease,
          .checkpoint = j.checkpoint,
          .headers = j.headers,
          .tags = j.tags,
          .correlation_id = j.correlation_id,
          .reply_to = j.reply_to,
          .session = j.session,
          .session_state = std::move(session_state),
          .has_memos = !r.memos.empty(),
          .cost = cost};
}

inline Error missing(const ModelDisk& disk, JobId id) {
  if (id >= 1 && id <= disk.last_id)
    return Error{.code = ErrorCode::expired, .message = fmt::format("job {} was pruned", id)};
  return Error{.code = ErrorCode::not_found, .message = fmt::format("no job {}", id)};
}

// For an outcome whose token is not that of a lease.
inline FinishStatus status_without_lease(const ModelDisk& disk, const JobOutcome& o) {
  const auto found = disk.jobs.find(o.id);
  if (found == disk.jobs.end()) return FinishStatus::not_found;
  const Job& j = found->second.job;
  const bool repeated = j.state == JobState::completed && j.token == o.token &&
                        std::holds_alternative<Complete>(o.outcome);
  return repeated ? FinishStatus::ok : FinishStatus::stale;
}

}  // namespace mainspring
