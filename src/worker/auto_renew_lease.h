// Holding leases by name from a program: acquire, and the two patterns that build on it.
//
//   acquire ──▶ held ──(a third of ttl)──▶ renew ──▶ …            release
//                 │                          │ no answer           ▲
//                 └──────────── lost_at ◀────┘ until then          │ scope exit
//
// Two threads per holding: one renews and may be stuck in a call, the other one watches the
// deadline. The deadline is reckoned from before the last renewal that was answered had been sent,
// less a margin, so that the holder hears of the loss before the store gives the lease away.
#pragma once

#include <functional>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/lease.h"

namespace mainspring {

// `jobs` and `clock` outlive the lease. Errors: lease_held (after `wait`, or at a stop),
// invalid_argument, overloaded; unavailable if the server did not answer during `wait`.
Result<AutoRenewLease> acquire(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                               LeaseOptions options);

// See Engine::do_once and Engine::do_every for the promises.
Result<Once> do_once(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                     const LeaseAction& action, LeaseOptions options);
Result<void> do_every(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                      Duration interval, const LeaseAction& action, LeaseOptions options);

// How long before its end by the store's clock a holder counts a lease as lost.
Duration lease_margin(Duration ttl);

}  // namespace mainspring
