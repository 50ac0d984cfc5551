// Images: the state of an object before and after a change, for audit records. All stores write the
// same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mainspring/schedule.h"
#include "store/operations.h"

namespace mainspring {

// JSON with a stable order of keys.
//   queue     {"paused", "retention_completed_ms", "retention_dead_ms"}; null = the default
//   job       {"state", "queue", "cancel_requested", "priority", "run_at", "tags"}
//   schedule  the definition and "paused", "timeout_override"?, "version"; of args and headers
//             content_image()
//   token     {"scopes", "expires_at", "revoked", "rate"}; never the digest
// With limits also "limits", as in QueueStats. While it is paused also "pause".
std::string queue_image(bool paused, std::optional<Duration> retention_completed,
                        std::optional<Duration> retention_dead, const QueueLimits& limits = {},
                        const std::optional<QueuePause>& pause = {});
// The record of a queue whose pause has ended by itself.
Audit resumed_by_itself(const std::string& queue);
// Reads only the fields named above.
std::string job_image(const Job& job);
std::string schedule_image(const ScheduleInfo& info);
std::string token_image(const TokenRecord& token);

// The object that Audit::object names. The store has no object of type `other`.
struct AuditObject {
  enum class Kind : std::uint8_t { queue, job, schedule, token, other };
  Kind kind = Kind::other;
  std::string name;  // of queue, schedule, token
  JobId id = 0;      // of job
};
// {"bytes", "sha256"}: for values that may be large or contain secrets.
std::string content_image(std::string_view content);

AuditObject parse_audit_object(std::string_view object);

// An Audit::object without an id: the record names the job that the operation before it creates.
// The record has the Audit's own images.
inline constexpr std::string_view kCreatedJob = "job/";
bool names_created_job(const Audit& op);

// The record of an Audit, without seq and hash; texts and images cut to their limits.
AuditRecord audit_record(const Audit& op, std::string before, std::string after, WallTime at);
// The same for an Audit that follows an operation with the result `about`: see kCreatedJob.
AuditRecord audit_record(const Audit& op, const OperationResult& about, std::string before,
                         std::string after, WallTime at);
// Returns whether the operation before an Audit changed anything that should be recorded.
bool worth_a_record(const OperationResult& result);

}  // namespace mainspring
