// The world of lines: a second, smaller world of each seed, for breakers, the order of queues, and
// deferred jobs.
//
// Why a world of its own: its clients draw from their own random numbers, so that a seed of the
// first world goes on meeting what it met, and a seed of this one runs in a tenth of the time.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart: until all has been looked at, or something is broken.
void run_lines(World& world);

}  // namespace mainspring::simulation
