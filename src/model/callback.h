// The queues that are the engine's own, and the follow-up that becomes a request to a URL.
//
// A callback is a job like others, of a queue that nobody else may fill or empty: what is posted is
// signed with the store's key, and says what the engine knows and nothing that a caller made up.
#pragma once

#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

inline constexpr std::string_view kReservedQueues = "mainspring.";  // how their names begin
inline constexpr std::string_view kCallbackQueue = "mainspring.callbacks";
inline constexpr std::string_view kCallbackKind = "callback";
inline constexpr int kCallbackAttempts = 12;  // of a delivery, and again where somebody retries it
inline constexpr std::string_view kRedriveQueue = "mainspring.redrives";
inline constexpr std::string_view kRedriveKind = "redrive";
inline constexpr std::string_view kBulkKind = "bulk";  // of the same queue

// For whoever puts jobs into a queue or takes them out of it. Errors: invalid_argument.
Result<void> check_not_reserved(std::string_view field, std::string_view queue);

// Its data is {"url": …}.
inline bool is_callback(const FollowUp& follow_up) {
  return follow_up.queue == kCallbackQueue && follow_up.kind == kCallbackKind;
}

}  // namespace mainspring
