// What the sessions of an engine are held with.
#pragma once

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/sessions.h"

namespace mainspring {

// All outlive it.
struct EngineSessions::Means {
  Jobs& jobs;
  const Clock& clock;
  Random& random;
};

}  // namespace mainspring
