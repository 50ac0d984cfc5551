// The phases of the world of lines.
#include "simulation/line_world.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "simulation/line_actors.h"

namespace mainspring::simulation {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Until all jobs have ended: a breaker is open for at most 40 s, and there are few jobs. Jobs that
// wait for a wall time wait longer if the clock was set back.
constexpr Duration kDrain = minutes(15), kDrainBySetClock = hours(48);

// A job that has not ended.
std::string left_over(const Store& store) {
  constexpr int kAll = 100'000;
  const auto page = store.list({}, kAll, 0);
  for (const Job& job : page ? page->jobs : std::vector<Job>{}) {
    if (!is_terminal(job.state))
      return fmt::format("job {} of {} is {}", job.id, job.queue, to_string(job.state));
  }
  return "";
}

void live(World& world) {
  const Duration limit = world.now() + (world.faults.wall_steps ? kDrainBySetClock : kDrain);
  while (world.why().empty() && world.now() < limit) {
    tend_deferred(world);
    world.run_until(world.now() + seconds(15));
    if (world.why().empty() && all_ended(world.store())) return;
  }
  if (world.why().empty())
    world.broken("LIVE-4: long after the faults not all has ended: " + left_over(world.store()));
}

void tally(World& world) {
  Met& met = world.met;
  met.breakers_opened += world.breakers.opened();
  met.breakers_reopened += world.breakers.reopened();
  met.breakers_closed += world.breakers.closed();
  met.probes_at_room += world.breakers.at_room();
  met.order_judged += world.lines.judged();
  met.overtook += world.lines.overtook();
  met.turns += world.lines.turns();
  met.deferred += world.deferred.deferred();
  met.named += world.deferred.named();
  met.named_refused += world.deferred.refused();
  met.named_at_bound += world.defer_limits.at_bound();
}

}  // namespace

void run_lines(World& world) {
  Service service(world);
  BreakerOperator breakers(world);
  Crowd crowd(world);
  DeferOperator aside(world);
  std::vector<std::unique_ptr<CallWorker>> callers;
  std::vector<std::unique_ptr<LineWorker>> line_workers;
  std::vector<std::unique_ptr<DeferWorker>> defer_workers;
  service.start();
  breakers.start();
  crowd.start();
  aside.start();
  for (int i = 0; i < 2; ++i) {
    callers.push_back(std::make_unique<CallWorker>(world, service, i));
    callers.back()->start();
    defer_workers.push_back(std::make_unique<DeferWorker>(world, i));
    defer_workers.back()->start();
  }
  for (const std::string& queue : {kAgedQueue, kFairQueue}) {
    line_workers.push_back(std::make_unique<LineWorker>(world, queue));
    line_workers.back()->start();
  }
  world.run_until(world.between(minutes(2), minutes(5)));
  breakers.stop();
  crowd.stop();
  aside.stop();
  world.come_to_rest(live);
  tally(world);
}

}  // namespace mainspring::simulation
