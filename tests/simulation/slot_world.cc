// The phases of the world of slots.
#include "simulation/slot_world.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "simulation/slot_actors.h"

namespace mainspring::simulation {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kSlotWorkers = 4;
// Until all jobs have ended: the slowest rate starts one job per 20 s, and there are at most 400.
constexpr Duration kSlotDrain = hours(6);

void slot_live(World& world) {
  const Duration limit = world.now() + kSlotDrain;
  while (world.why().empty() && world.now() < limit) {
    world.run_until(world.now() + seconds(30));
    if (world.why().empty() && all_ended(world.store())) return;
  }
  if (world.why().empty()) world.broken("LIVE-4: long after the faults not all has ended");
}

void slot_job_counts(World& world) {
  Met& met = world.met;
  for (const LimitInvariant& invariant : world.heavy_limits) {
    met.heavy += invariant.heavy();
    met.capped += invariant.capped();
    met.slots_used_up += invariant.at_bound();
    met.keys_used_up += invariant.keys_at_bound();
    met.key_rates_used_up += invariant.keys_closed();
  }
  for (const HeadInvariant& invariant : world.heads) {
    met.heads_judged += invariant.judged();
    met.heads_waited += invariant.waited();
  }
}

}  // namespace

void run_slots(World& world) {
  world.faults.wall_steps = false;  // so that rates can be judged, of keys too
  SlotOperator jobs(world);
  std::vector<std::unique_ptr<SlotWorker>> workers;
  jobs.start();
  for (int i = 0; i < kSlotWorkers; ++i) {
    workers.push_back(std::make_unique<SlotWorker>(world, jobs, i));
    workers.back()->start();
  }
  world.run_until(world.between(minutes(2), minutes(5)));
  jobs.stop();
  world.come_to_rest(slot_live);
  slot_job_counts(world);
}

}  // namespace mainspring::simulation
