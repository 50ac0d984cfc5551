// The promises, checked against a history: a verdict per invariant, with the smallest witness.
//
//   DUR    an acknowledged enqueue, outcome or checkpoint is never lost;
//          a refused one never appears
//   ATOM   a batch is enqueued whole or not at all
//   IDEM   one job per idempotency key; another body under the same key is refused
//   UNIQ   no second job for a unique key while the first is known to live
//   LEASE  no job is given to another worker before its lease ends
//   FENCE  tokens grow and never repeat; once a newer one was seen, older ones are refused
//   ATT    attempts stay within max_attempts; a retry waits for its back-off;
//          a snooze does not use up an attempt
//   DLQ    a dead job is in the dead letter once, with its reason and last error
//   CONS   the counters of each queue equal the number of its jobs
//   STATE  terminal states are final, and every job reaches one
//   CAN    a cancelled job never starts; of cancel and complete exactly one wins
//   CTL    a paused queue gives no jobs
//   ORD    jobs of a session keep their order (session_checks.h)
#pragma once

#include <string>
#include <vector>

#include "history.h"

namespace blackbox {

struct Verdict {
  std::string invariant;
  std::size_t checked = 0;  // examined facts
  std::size_t violated = 0;
  std::vector<std::string> witnesses;  // the first few
};

std::vector<Verdict> check(const History& history);

// The events that a run must have at least once to prove anything; empty = it had all of them.
std::vector<std::string> not_met(const History& history);

// Counts of events, for the report.
std::string summary(const History& history);

inline constexpr std::size_t kMaxWitnesses = 3;
// How much earlier a lease or a delay may end than the client computes. The server reads its clock
// once per batch, before it takes the requests of the batch. On a busy machine its thread may be
// preempted in between.
inline constexpr Micros kClockTolerance = 100'000;

}  // namespace blackbox
