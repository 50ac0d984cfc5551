// What holds of sessions, by what their clients saw:
//
//   ORD-1  jobs of a session run one at a time, and begin in the order of their enqueue; one that
//   an
//          operator brought back may begin later
//   ORD-2  the state that a claim reads is the one that was committed last
//   ORD-3  while a session is held, only claims with its holder's token get its jobs
#pragma once

#include <vector>

#include "checks.h"

namespace blackbox {

std::vector<Verdict> check_sessions(const History& history);

}  // namespace blackbox
