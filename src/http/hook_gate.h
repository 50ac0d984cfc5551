// HookGate: admits callers of a hook that present its secret, up to its rate.
#pragma once

#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "http/authenticator.h"
#include "mainspring/trigger.h"

namespace mainspring::http {

// The credentials of a request to a hook.
struct HookCall {
  std::string_view peer;                      // Caller::from
  std::string_view authorization;             // the header's value, "" = none
  std::string_view id, timestamp, signature;  // webhook-id, -timestamp, -signature
  std::string_view body;
};

class HookGate {
 public:
  explicit HookGate(int free_failures) : failures_(free_failures) {}

  // `secret`: see TriggerInfo. Errors: unauthenticated, overloaded (too many failures of this
  // address, or more requests than HookSource::rate).
  Result<void> admit(const Trigger& trigger, std::string_view secret, const HookCall& call, Now now)
      MS_EXCLUDES(mutex_);
  // Counts a failure of the address; also for a hook that does not exist. Errors: as admit().
  Error refuse(std::string_view peer, Instant now);

 private:
  Result<void> spend(const Trigger& trigger, Instant now) MS_EXCLUDES(mutex_);

  static constexpr std::size_t kMaxBuckets = 2 * kMaxTriggers;  // including removed triggers
  Failures failures_;
  Mutex mutex_;
  // The time in nanoseconds until which evenly spaced requests would have used the rate.
  std::unordered_map<std::string, std::int64_t> spent_until_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::http
