// The world of slots: a third, small world of each seed, for kinds with costs and rates per key.
//
// A world of its own for the reason of line_world.h: seeds of the others go on meeting what they
// met. Nobody sets the wall clock here.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart: until all has been looked at, or something is broken.
void run_slots(World& world);

}  // namespace mainspring::simulation
