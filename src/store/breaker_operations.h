// Operations on circuit breakers: see mainspring/breaker.h.
//
// The ends of attempts open and close a breaker, in the transaction that ends the attempt; so do
// the operations below. An attempt counts as failed if its outcome is Retry, including the last
// attempt of a job. A completed attempt counts as a success. Other ends (Snooze, CancelJob, Dead, a
// lost lease) are not counted. Outcomes with `open_breaker_for` open the breaker. When the open
// time is over, the next claim from one of its queues, or OpenQueues, makes it half open.
#pragma once

#include <string>

#include "mainspring/breaker.h"

namespace mainspring {

// Creates or updates a breaker; an existing breaker keeps its state. The settings have been
// validated. Answers Done. Errors: overloaded (kMaxBreakers).
struct PutBreaker {
  std::string name;
  BreakerSettings settings;
};
// Answers Done. Errors: not_found, conflict (a queue uses the breaker).
struct RemoveBreaker {
  std::string name;
};
// Opens the breaker for this duration; 0 = for its open_for. Answers Done. Errors: not_found.
struct OpenBreaker {
  std::string name;
  Duration open_for{0};
};
// Closes the breaker and resets its counts. Answers Done. Errors: not_found.
struct CloseBreaker {
  std::string name;
};

}  // namespace mainspring
