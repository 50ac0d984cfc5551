// Errors of a claim whose named job cannot be claimed.
#include "model/named_claim.h"

#include <fmt/format.h>

#include "base/mutant.h"

namespace mainspring {
namespace {

Error no(JobId id, std::string_view why) {
  return Error{.code = ErrorCode::conflict, .message = fmt::format("job {} {}", id, why)};
}

}  // namespace

Result<void> check_named(const NamedJob& job, WallTime now) {
  if (job.state == JobState::running) {
    return no(job.id, fmt::format("is running at worker {}: it cannot be claimed", job.worker));
  }
  if (is_terminal(job.state)) {
    return no(job.id, fmt::format("is {}: only a job that has not ended can be claimed",
                                  to_string(job.state)));
  }
  if (!job.session.empty() && !MS_MUTANT(named_claim_breaks_session)) {
    return no(job.id, fmt::format("is of session \"{}\", whose jobs run in order: accept the "
                                  "session",
                                  job.session));
  }
  if (job.state == JobState::waiting && !job.deferred)
    return no(job.id, "waits for an earlier run of its schedule: it cannot be claimed before");
  if (job.expires_at && *job.expires_at <= now)
    return no(job.id, fmt::format("expired at {}", format_wall_time(*job.expires_at)));
  return {};
}

Result<void> check_room(const NamedJob& job, const RoomForNamed& room) {
  if (room.paused && !MS_MUTANT(named_claim_ignores_pause))
    return no(job.id, fmt::format("cannot start: queue {} is paused", job.queue));
  const std::string costs = room.cost == 1 ? "" : fmt::format(" (it costs {})", room.cost);
  if (room.queue <= 0 && !MS_MUTANT(named_claim_ignores_limits)) {
    return no(job.id,
              fmt::format("cannot start now{}: queue {} has reached its concurrency or rate; try "
                          "again later",
                          costs, job.queue));
  }
  if (room.limit_key <= 0 && !MS_MUTANT(named_claim_ignores_limits)) {
    return no(job.id, fmt::format("cannot start now{}: its limit_key in queue {} has reached its "
                                  "concurrency or rate; try again later",
                                  costs, job.queue));
  }
  if (job.quarantined && room.quarantine <= 0 && !MS_MUTANT(named_claim_ignores_quarantine)) {
    return no(job.id, fmt::format("is in the quarantine of queue {}, where another job is "
                                  "released: release it, or try again later",
                                  job.queue));
  }
  return {};
}

Error cannot_defer(JobId id, std::string_view session) {
  return no(id, fmt::format("is of session \"{}\" and cannot be deferred, because later jobs would "
                            "wait too: snooze it, or let it fail",
                            session));
}

}  // namespace mainspring
