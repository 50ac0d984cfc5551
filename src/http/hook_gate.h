// HookGate: who may call a hook: whoever shows its secret, and not too often.
#pragma once

#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "http/doorman.h"
#include "mainspring/trigger.h"

namespace mainspring::http {

// What a request to a hook shows.
struct HookCall {
  std::string_view peer;                      // Caller::from
  std::string_view authorization;             // the header's value, "" = none
  std::string_view id, timestamp, signature;  // webhook-id, -timestamp, -signature
  std::string_view body;
};

class HookGate {
 public:
  explicit HookGate(int free_failures) : failures_(free_failures) {}

  // `secret` as TriggerInfo has it. Errors: unauthenticated, overloaded (too many wrong ones came
  // from this address, or more requests than HookSource::rate).
  Result<void> admit(const Trigger& trigger, std::string_view secret, const HookCall& call, Now now)
      MS_EXCLUDES(mutex_);
  // One more failure of the address. Answers `error`, or overloaded if there were too many.
  Error refuse(std::string_view peer, Error error, Instant now);

 private:
  Result<void> spend(const Trigger& trigger, Instant now) MS_EXCLUDES(mutex_);

  static constexpr std::size_t kMaxBuckets = 2 * kMaxTriggers;  // also those of removed ones
  Failures failures_;
  Mutex mutex_;
  // When the requests that came so far would have come evenly, in nanoseconds.
  std::unordered_map<std::string, std::int64_t> spent_until_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::http
