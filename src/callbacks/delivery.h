// A delivery: the request of a job of the callback queue.
#pragma once

#include <string>

#include "callbacks/signature.h"
#include "mainspring/job.h"
#include "outgoing/outgoing_client.h"

namespace mainspring {

struct Delivery {
  JobId about = 0;  // the job that ended or reported
  std::string url;
  // "msg_", the job's creation time, its id: the same in every attempt, and unique over all
  // deliveries and stores.
  std::string id;
  // {"type": "job.completed", "timestamp": …, "data": {…}}. `data` is the job's args byte for byte,
  // without the url: about the job that ended, sent a message ("job.message") or changed its
  // progress ("job.progress").
  std::string body;
};
// For a job that a follow-up created. Errors: invalid_argument (args of another shape).
Result<Delivery> delivery_of(const Job& job);

// Signs it now. The delivery outlives the request.
OutgoingRequest request_of(const Delivery& delivery, const SigningKeys& keys, WallTime now);

// The outcome of an answer: 2xx completes, 410 cancels, all else fails, including redirects.
// `back_off` is the delay of the next attempt; a longer Retry-After takes precedence, up to
// kMaxRetryAfter.
inline constexpr Duration kMaxRetryAfter = std::chrono::hours(24);
Outcome outcome_of(const OutgoingResponse& response, Duration back_off);

}  // namespace mainspring
