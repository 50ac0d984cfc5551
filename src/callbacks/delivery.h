// A delivery: the request that a job of the callback queue stands for.
#pragma once

#include <string>

#include "callbacks/signature.h"
#include "mainspring/job.h"
#include "outgoing/outgoing_client.h"

namespace mainspring {

struct Delivery {
  JobId about = 0;  // the job that ended, or said something
  std::string url;
  // "msg_", when the job was made, its id: the same in every attempt, and no other delivery's, of
  // other stores neither.
  std::string id;
  // {"type": "job.completed", "timestamp": …, "data": {…}}: what the job's args say of the one that
  // ended, or sent a message ("job.message"), or has another progress ("job.progress"); they are
  // passed on byte for byte, all but the url.
  std::string body;
};
// Of a job that a follow-up made. Errors: invalid_argument (args of another shape).
Result<Delivery> delivery_of(const Job& job);

// Signed, now. The delivery outlives it.
OutgoingRequest request_of(const Delivery& delivery, const SigningKeys& keys, WallTime now);

// What comes of an answer: 2xx is done, 410 wants no more of it, all else is a failure, a redirect
// too. `back_off` is when it would be tried again; a longer Retry-After counts, up to
// kMaxRetryAfter.
inline constexpr Duration kMaxRetryAfter = std::chrono::hours(24);
Outcome outcome_of(const OutgoingResponse& response, Duration back_off);

}  // namespace mainspring
