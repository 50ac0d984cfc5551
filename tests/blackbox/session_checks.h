// The invariants of sessions, from the observations of their clients:
//
//   ORD-1  jobs of a session run one at a time and start in the order of their enqueue; a job that
//          an operator retried may start later
//   ORD-2  a claim reads the last committed state
//   ORD-3  while a session is held, only claims with its holder's token get its jobs
#pragma once

#include <vector>

#include "checks.h"

namespace blackbox {

std::vector<Verdict> check_sessions(const History& history);

}  // namespace blackbox
