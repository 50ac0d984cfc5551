// Operations on breakers: see mainspring/breaker.h.
//
// A breaker is opened and closed by the ends of attempts, in the transaction that ends them, and by
// the operations below. An attempt counts as failed if its end was reported as Retry, also the last
// one of a job; one that completed counts as succeeded; whatever else ends an attempt (Snooze,
// CancelJob, Dead, a lease that was lost) says nothing. The outcomes that have `open_breaker_for`
// open it. When its time is over, the next claim of one of its queues finds it half open, or
// OpenQueues.
#pragma once

#include <string>

#include "mainspring/breaker.h"

namespace mainspring {

// Made if it is new; one that is there keeps its state. The settings have been validated. Answers
// Done. Errors: overloaded (kMaxBreakers).
struct PutBreaker {
  std::string name;
  BreakerSettings settings;
};
// Answers Done. Errors: not_found, conflict (a queue names it).
struct RemoveBreaker {
  std::string name;
};
// Opens it for exactly so long; 0 = for its open_for. Answers Done. Errors: not_found.
struct OpenBreaker {
  std::string name;
  Duration open_for{0};
};
// Closes it, and forgets what it has counted. Answers Done. Errors: not_found.
struct CloseBreaker {
  std::string name;
};

}  // namespace mainspring
