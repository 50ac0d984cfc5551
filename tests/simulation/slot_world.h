// The world of slots: a third, small world of each seed, for kinds with costs and rates per key.
//
// A separate world for the reason in line_world.h: seeds of the other worlds keep their behaviour.
// The wall clock is never set here.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart: until all has been looked at, or something is broken.
void run_slots(World& world);

}  // namespace mainspring::simulation
