// Holds one job in a program: a claim by id, renewals, and one outcome.
#pragma once

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/held_job.h"

namespace mainspring {

// `jobs` and `clock` outlive the job. Errors: those of Engine::claim.
Result<HeldJob> hold_job(Jobs& jobs, const Clock& clock, Random& random, JobId id,
                         ClaimOptions options);

}  // namespace mainspring
