// Images: what audit records say that an object was before and after a change. Every store writes
// the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mainspring/schedule.h"
#include "store/operations.h"

namespace mainspring {

// JSON with a stable order of keys.
//   queue     {"paused", "retention_completed_ms", "retention_dead_ms"}; null = the default
//   job       {"state", "queue", "cancel_requested"}
//   schedule  the definition and "paused", "version"; of args and headers content_image()
//   token     {"scopes", "expires_at", "revoked", "rate"}; never the digest
// With limits also "limits", as in QueueStats. While it is paused also "pause".
std::string queue_image(bool paused, std::optional<Duration> retention_completed,
                        std::optional<Duration> retention_dead, const QueueLimits& limits = {},
                        const std::optional<QueuePause>& pause = {});
// The record of a queue whose pause was over.
Audit resumed_by_itself(const std::string& queue);
std::string job_image(JobState state, std::string_view queue, bool cancel_requested);
std::string schedule_image(const ScheduleInfo& info);
std::string token_image(const TokenRecord& token);

// What Audit::object names. Of `other` the store knows nothing.
struct AuditObject {
  enum class Kind : std::uint8_t { queue, job, schedule, token, other };
  Kind kind = Kind::other;
  std::string name;  // of queue, schedule, token
  JobId id = 0;      // of job
};
// {"bytes", "sha256"}: of what may be large or have secrets in it.
std::string content_image(std::string_view content);

AuditObject parse_audit_object(std::string_view object);

// The record of an Audit, without seq and hash; texts and images within their bounds.
AuditRecord audit_record(const Audit& op, std::string before, std::string after, WallTime at);
// Did the operation before an Audit do something that may be recorded?
bool worth_a_record(const OperationResult& result);

}  // namespace mainspring
