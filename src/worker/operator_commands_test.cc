// Workers that an operator quiets, resumes and stops.
#include <atomic>

#include "worker/worker_rig.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

}  // namespace

TEST_CASE("a quiet worker claims nothing, and claims again after a renewal resumes it") {
  WorkerRig rig;
  rig.start([](const ClaimedJob&, Context&) { return done(); });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 1; }));
  rig.jobs.tell_command(WorkerCommand::quiet);
  rig.jobs.add("k");
  // It polls with a renewal of no leases.
  REQUIRE(rig.jobs.await(
      [&] { return !rig.jobs.renews.empty() && rig.jobs.renews.back().leases.empty(); }));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }) == 1);
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.finishes.empty(); }));
  rig.jobs.tell_command(WorkerCommand::none);
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 1; }));
  rig.worker->stop();
  CHECK(rig.worker->stats().completed == 1);
}

TEST_CASE("a quiet worker finishes its running job and renews its lease") {
  WorkerRig rig;
  rig.options.slots = 1;
  rig.options.lease = 1s;  // it renews that often, and loses nothing by the clock
  rig.jobs.lease = 1h;
  rig.jobs.granted = 1h;
  std::atomic<bool> go = false;
  rig.start([&](const ClaimedJob&, Context& context) {
    while (!go && !context.stop_token().stop_requested()) std::this_thread::yield();
    return done();
  });
  rig.jobs.add("k");
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return !rig.jobs.renews.empty(); }));
  rig.jobs.tell_command(WorkerCommand::quiet);
  // The second renewal from now on starts when the worker has obeyed the answer to the first.
  const std::size_t before = rig.jobs.with_lock([&] { return rig.jobs.renews.size(); });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.renews.size() >= before + 2; }));
  go = true;
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 1; }));
  REQUIRE(rig.jobs.await([&] { return rig.jobs.renews.back().leases.empty(); }));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.finishes.size(); }) == 1);
  rig.worker->stop();
  CHECK(rig.worker->stats().completed == 1);
}

TEST_CASE("a stop command ends the claims, notifies the program once and lets the job finish") {
  WorkerRig rig;
  std::atomic<int> told = 0;
  std::atomic<bool> go = false;
  rig.options.on_stop_command = [&] { rig.jobs.with_lock([&] { ++told; }); };
  rig.start([&](const ClaimedJob&, Context&) {
    rig.jobs.with_lock([] {});
    while (!go) std::this_thread::yield();
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.worker->stats().running == 1; }));
  rig.jobs.tell_command(WorkerCommand::stop);
  REQUIRE(rig.jobs.await([&] { return told > 0; }));
  go = true;
  rig.worker->stop();
  CHECK(told == 1);
  CHECK(rig.worker->stats().completed == 1);
}

TEST_CASE("a worker that does not stop on command becomes quiet instead") {
  WorkerRig rig;
  std::atomic<int> told = 0;
  rig.options.on_stop_command = [&] { ++told; };
  rig.options.stops_on_command = false;
  rig.start([](const ClaimedJob&, Context&) { return done(); });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 1; }));
  rig.jobs.tell_command(WorkerCommand::stop);
  REQUIRE(rig.jobs.await([&] { return !rig.jobs.renews.empty(); }));
  rig.jobs.add("k");
  rig.jobs.tell_command(WorkerCommand::none);
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 1; }));
  CHECK(told == 0);
  rig.worker->stop();
}

}  // namespace mainspring
