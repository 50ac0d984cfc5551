// Handlers that run on after their time limit: the worker reports how many.
#include <doctest/doctest.h>

#include <algorithm>
#include <latch>
#include <semaphore>

#include "worker/worker_rig.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongAfter = 10s;  // kStuckAfter

// A worker with one job whose handler ignores that it was asked to stop.
struct StuckRig : WorkerRig {
  SteppedClock stepped;
  std::latch asked{1}, end{1};
  std::counting_semaphore<> started{0};

  explicit StuckRig(int slots) {
    time = &stepped;
    options.slots = slots;
    jobs.add("k", "\"quick\"");  // claims ahead are for quick handlers
    KindOptions kind;
    kind.timeout = 1s;
    start(
        [this](const ClaimedJob& job, Context& context) {
          if (job.args == "\"quick\"") return done();
          started.release();
          const std::stop_callback heard(context.stop_token(), [this] { asked.count_down(); });
          end.wait();
          return done();
        },
        kind);
    REQUIRE(jobs.await_outcomes(1));
    jobs.add("k");
    started.acquire();
    stepped.advance(1s);
    asked.wait();
  }
  ~StuckRig() { worker.reset(); }
  bool claimed_with(int stuck) {
    return jobs.await(
        [&] { return !jobs.claims.empty() && jobs.claims.back().facts->stuck == stuck; });
  }
};

}  // namespace

TEST_CASE("a worker whose slots are all stuck reports it without a claim, and recovers") {
  StuckRig rig(1);
  rig.stepped.advance(kLongAfter);
  REQUIRE(rig.jobs.await(
      [&] { return !rig.jobs.renews.empty() && rig.jobs.renews.back().stuck == 1; }));
  rig.end.count_down();
  CHECK(rig.claimed_with(0));
}

TEST_CASE("a worker whose slots are all stuck gives back what it claimed ahead") {
  StuckRig rig(1);
  const JobId ahead = rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.worker->stats().waiting == 1; }));
  rig.stepped.advance(kLongAfter);
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.ended_as<Snooze>(ahead));
  rig.end.count_down();
  CHECK(rig.claimed_with(0));
}

TEST_CASE("a worker with free slots reports a stuck handler with its next claim, at once") {
  StuckRig rig(2);
  rig.stepped.advance(kLongAfter);
  CHECK(rig.claimed_with(1));
  rig.end.count_down();
  CHECK(rig.claimed_with(0));
}

TEST_CASE("a worker continues at an older server that refuses the report of stuck handlers") {
  for (const int slots : {1, 2}) {
    StuckRig rig(slots);
    rig.jobs.with_lock([&] { rig.jobs.is_older = true; });
    rig.stepped.advance(kLongAfter);
    REQUIRE(rig.jobs.await([&] {
      const auto without = [](const Renew& one) { return one.leases.empty() && !one.stuck; };
      const auto& renews = rig.jobs.renews;
      if (slots == 1) return std::any_of(renews.begin(), renews.end(), without);
      const auto with = [](const Claim& one) { return one.facts->stuck == 1; };
      const auto& claims = rig.jobs.claims;
      return std::any_of(claims.begin(), claims.end(), with) && rig.jobs.parked == 1;
    }));
    CHECK(rig.claimed_with(0));
    rig.jobs.add("k");
    rig.end.count_down();
    CHECK(rig.jobs.await([&] { return rig.jobs.outcomes.size() == 3; }));
  }
}

}  // namespace mainspring
