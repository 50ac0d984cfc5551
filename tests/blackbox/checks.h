// The promises, checked against a history: a verdict per invariant, with the smallest witness.
//
//   DUR    an acknowledged enqueue, outcome or checkpoint is never lost; a refused one never
//   appears ATOM   a batch is enqueued whole or not at all IDEM   one job per idempotency key;
//   another body under the same key is refused UNIQ   no second job for a unique key while the
//   first is known to live LEASE  no job is given to somebody else before its lease ends FENCE
//   tokens grow, never repeat, and once a newer one was seen the older is refused ATT    attempts
//   stay within max_attempts; a retry waits for its back-off, a snooze is refunded DLQ    what is
//   dead is in the dead letter once, with its reason and last error CONS   the counters of each
//   queue equal what is there STATE  terminal states are final, everything ends in one CAN    a
//   cancelled job never starts; of cancel and complete exactly one wins CTL    a paused queue gives
//   nothing ORD    jobs of a session keep their order (session_checks.h)
#pragma once

#include <string>
#include <vector>

#include "history.h"

namespace blackbox {

struct Verdict {
  std::string invariant;
  std::size_t checked = 0;  // facts that were examined
  std::size_t violated = 0;
  std::vector<std::string> witnesses;  // the first few
};

std::vector<Verdict> check(const History& history);

// What a run must have met at least once to prove anything; empty = it met all of it.
std::vector<std::string> not_met(const History& history);

// Counts for people: what happened, how often.
std::string summary(const History& history);

inline constexpr std::size_t kMaxWitnesses = 3;
// How much earlier than computed from outside a lease or a delay may end: the server reads its
// clock once per batch, before it takes the requests that go into it, and on a crowded machine its
// thread may be put aside between the two.
inline constexpr Micros kClockTolerance = 100'000;

}  // namespace blackbox
