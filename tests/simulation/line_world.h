// The world of lines: a second, smaller world of each seed, for breakers, the order of queues, and
// deferred jobs.
//
// Why a separate world: its clients draw from their own random numbers, so that a seed of the
// first world keeps its behaviour, and a seed of this one runs in a tenth of the time.
#pragma once

#include "simulation/world.h"

namespace mainspring::simulation {

// Chaos, heal, liveness, a cold restart: until all is checked, or a violation is found.
void run_lines(World& world);

}  // namespace mainspring::simulation
