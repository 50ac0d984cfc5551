// Kinds with their own concurrency: what a worker claims while some of them are full.
#include <doctest/doctest.h>

#include <atomic>
#include <semaphore>

#include "worker/worker.h"
#include "worker/worker_rig.h"

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("only kinds with a handler are claimed, and none beyond its own concurrency") {
  WorkerRig rig;
  std::counting_semaphore<> go(0);
  std::atomic<int> at_once = 0, most = 0;
  WorkerRuntime& worker = rig.make();
  worker.on("narrow",
            [&](const ClaimedJob&, Context&) {
              most = std::max(most.load(), ++at_once);
              go.acquire();
              --at_once;
              return done();
            },
            {.concurrency = 1});
  worker.on("wide", [](const ClaimedJob&, Context&) { return done(); });
  for (int i = 0; i < 3; ++i) rig.jobs.add("narrow");
  rig.jobs.add("unknown");
  REQUIRE(worker.start().has_value());
  // While the narrow kind is busy, only wide ones are claimed and run.
  REQUIRE(rig.jobs.await([&] {
    return rig.jobs.parked == 1 && rig.jobs.claims.back().kinds == std::vector<std::string>{"wide"};
  }));
  for (int i = 0; i < 3; ++i) rig.jobs.add("wide");
  REQUIRE(rig.jobs.await_outcomes(3));
  go.release(3);
  REQUIRE(rig.jobs.await([&] { return rig.jobs.claims.back().max > 0; }));
  worker.request_stop();
  worker.stop();
  CHECK(most == 1);
  CHECK_FALSE(rig.jobs.ended_as<Complete>(4));
}

TEST_CASE("a kind that was full is claimed again as soon as it has room") {
  WorkerRig rig;
  std::counting_semaphore<> go(0);
  WorkerRuntime& worker = rig.make();
  worker.on("narrow",
            [&](const ClaimedJob&, Context&) {
              go.acquire();
              return done();
            },
            {.concurrency = 1});
  worker.on("wide", [](const ClaimedJob&, Context&) { return done(); });
  rig.jobs.add("narrow");
  rig.jobs.add("narrow");
  REQUIRE(worker.start().has_value());
  REQUIRE(rig.jobs.await([&] {
    return rig.jobs.parked == 1 && rig.jobs.claims.back().kinds == std::vector<std::string>{"wide"};
  }));
  // No job arrives that would end the claim.
  go.release(2);
  REQUIRE(rig.jobs.await_outcomes(2));
  worker.request_stop();
  worker.stop();
  CHECK(rig.jobs.ended_as<Complete>(2));
}
