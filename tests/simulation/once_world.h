// The world of what happens once: a fourth, small world of each seed, for results of steps, what
// completions post, callbacks, what reads say of jobs that are over, and quarantine.
//
// A world of its own for the reason of line_world.h: seeds of the others go on meeting what they
// met.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart, read-back: until all has been looked at, or something is
// broken.
void run_once(World& world);

}  // namespace mainspring::simulation
