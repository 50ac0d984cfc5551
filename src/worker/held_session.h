// Holds a session in a program: accept, and the calls of a holder.
//
//   accept ──▶ held ──(a third of the lease)──▶ renew session, and its running job ──▶ … release
//                │                                  │ no answer until lost_at            ▲
//                └──────────── lost ◀───────────────┘                                    │ scope
//                exit
//
// renewing.h describes how it is renewed and lost; the running job is renewed with it.
#pragma once

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/session.h"

namespace mainspring {

// `jobs` and `clock` outlive the session; queue, key and lease have been checked. Errors: those of
// EngineSessions::accept.
Result<HeldSession> hold_session(Jobs& jobs, const Clock& clock, Random& random,
                                 const std::string& queue, SessionOptions options);

}  // namespace mainspring
