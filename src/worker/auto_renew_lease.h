// Holds named leases in a program: acquire, and two patterns on top of it. renewing.h describes how
// a holding is renewed and lost.
#pragma once

#include <functional>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/lease.h"

namespace mainspring {

// `jobs` and `clock` outlive the lease. Errors: lease_held (after `wait`, or when stopped),
// invalid_argument, overloaded; unavailable if the server did not answer during `wait`.
Result<AutoRenewLease> acquire(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                               LeaseOptions options);

// See Engine::do_once and Engine::do_every.
Result<Once> do_once(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                     const LeaseAction& action, LeaseOptions options);
Result<void> do_every(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                      Duration interval, const LeaseAction& action, LeaseOptions options);

}  // namespace mainspring
