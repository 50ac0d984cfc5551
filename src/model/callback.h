// The engine's own queues, and the follow-up that becomes an HTTP request to a URL.
//
// A callback is an ordinary job in a reserved queue: clients can neither add nor claim its jobs. So
// every request that is signed with the store's key has contents that come from the engine.
#pragma once

#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

inline constexpr std::string_view kReservedQueues = "mainspring.";  // prefix of reserved queues
inline constexpr std::string_view kCallbackQueue = "mainspring.callbacks";
inline constexpr std::string_view kCallbackKind = "callback";
inline constexpr int kCallbackAttempts = 12;  // of a delivery; a retry by an operator adds as many
                                              // again
inline constexpr std::string_view kRedriveQueue = "mainspring.redrives";
inline constexpr std::string_view kRedriveKind = "redrive";
inline constexpr std::string_view kBulkKind = "bulk";  // kind of bulk jobs in that queue

// For callers that add jobs to a queue or claim jobs from it. Errors: invalid_argument.
Result<void> check_not_reserved(std::string_view field, std::string_view queue);

// Its data is {"url": …}.
inline bool is_callback(const FollowUp& follow_up) {
  return follow_up.queue == kCallbackQueue && follow_up.kind == kCallbackKind;
}

}  // namespace mainspring
