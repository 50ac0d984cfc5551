// What an engine's sessions need to hold and renew their leases.
#pragma once

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/sessions.h"

namespace mainspring {

// All pointers and references must outlive the sessions.
struct EngineSessions::Means {
  Jobs& jobs;
  const Clock& clock;
  Random& random;
};

}  // namespace mainspring
