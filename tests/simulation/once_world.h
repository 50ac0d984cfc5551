// The once world: a fourth, small world of each seed, for step results, jobs that completions post,
// callbacks, reads of ended jobs, and quarantine.
//
// A separate world for the reason in line_world.h: seeds of the other worlds keep their behaviour.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart, read-back: until all is checked, or a violation is found.
void run_once(World& world);

}  // namespace mainspring::simulation
