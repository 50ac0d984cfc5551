// The phases of the once world.
#include "simulation/once_world.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "simulation/once_actors.h"

namespace mainspring::simulation {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kOrderWorkers = 3;
constexpr JobId kNeverGiven = 1'000'000;
// Until all jobs have ended: a back-off is at most six hours; jobs that wait for a wall time wait
// longer if the clock was set back.
constexpr Duration kOnceDrain = hours(48);

void once_live(World& world) {
  const Duration limit = world.now() + kOnceDrain;
  while (world.why().empty() && world.now() < limit) {
    world.run_until(world.now() + seconds(30));
    if (world.why().empty() && all_ended(world.store())) return;
  }
  if (world.why().empty()) world.broken("LIVE-4: long after the faults not all has ended");
}

// Every job of the store, and each pruned job in its last state.
void read_back(World& world, OnceInvariants& invariants) {
  constexpr int kAll = 100'000;
  const auto add = [&](const Job& job) {
    invariants.posts.add(job);
    invariants.callbacks.add(job);
  };
  for (const auto& [id, job] : world.pruned()) {
    add(job);
    invariants.reads.enqueued(id);
    if (std::string why = invariants.reads.read(id, world.store().get(id), world.now());
        !why.empty())
      return world.broken(why);
  }
  const auto page = world.store().list({}, kAll, 0);
  if (!page) return world.broken("read-back: " + page.error().message);
  for (const Job& listed : page->jobs) {
    const auto job = world.store().get(listed.id);
    if (!job) return world.broken("read-back: " + job.error().message);
    add(*job);
    if (std::string why = invariants.reads.read(job->id, job, world.now()); !why.empty())
      return world.broken(why);
    if (job->queue != kOrderQueue) continue;
    const auto memos = world.store().memos(job->id, "", kAll);
    if (!memos) return world.broken("read-back: " + memos.error().message);
    if (std::string why = invariants.memos.check(*job, memos->memos); !why.empty())
      return world.broken(why);
  }
  const auto never = world.store().get(kNeverGiven);
  if (never || never.error().code != ErrorCode::not_found)
    world.broken("RES-4: a job that never was is not `not_found`");
}

void check(World& world, const OnceInvariants& invariants) {
  Met& met = world.met;
  const NextInvariant::Verdict posts = invariants.posts.check();
  const CallbackInvariant::Verdict callbacks = invariants.callbacks.check();
  for (const std::string& why : {posts.broken, callbacks.broken}) {
    if (!why.empty()) world.broken(why);
  }
  met.memos_kept += invariants.memos.kept();
  met.memos_recalled += invariants.memos.recalled();
  met.memos_refused += invariants.memos.refused();
  met.posted += posts.posted;
  met.posts_refused += posts.refused;
  met.delivered += callbacks.delivered;
  met.posts_repeated += callbacks.repeated;
  met.receivers_gone += callbacks.gone;
  met.deliveries_dead += callbacks.dead;
  met.reads_completed += invariants.reads.reads();
  met.reads_expired += invariants.reads.expired();
  met.apart += world.quarantine.apart();
}

}  // namespace

void run_once(World& world) {
  OnceInvariants invariants(world.faults.wall_steps ? std::nullopt
                                                    : std::optional(world.retention()));
  OrderMaker maker(world, invariants);
  std::vector<std::unique_ptr<OrderWorker>> workers;
  std::vector<std::unique_ptr<Poster>> posters;
  std::vector<std::unique_ptr<PoisonWorker>> tasters;
  maker.start();
  for (int i = 0; i < kOrderWorkers; ++i) {
    workers.push_back(std::make_unique<OrderWorker>(world, invariants, i));
    workers.back()->start();
  }
  for (int i = 0; i < 2; ++i) {
    posters.push_back(std::make_unique<Poster>(world, invariants, i));
    posters.back()->start();
    tasters.push_back(std::make_unique<PoisonWorker>(world, maker, i));
    tasters.back()->start();
  }
  world.run_until(world.between(seconds(90), minutes(3)));
  maker.stop();
  world.come_to_rest(once_live);
  if (world.why().empty()) read_back(world, invariants);
  if (world.why().empty()) check(world, invariants);
}

}  // namespace mainspring::simulation
