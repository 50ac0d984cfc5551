// Slots over a fake server: the runner does what the plan decides.
#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "env/random.h"
#include "mainspring/slot.h"
#include "telemetry/log.h"
#include "worker/fake_jobs.h"
#include "worker/slot_predictor.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct SlotRunnerRig {
  FakeJobs jobs;
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  std::stop_source stop;

  Result<SlotSummary> run(const SlotOptions& options, Handler handler) {
    SlotRunner runner(jobs, clock, random, log, {.queues = {"q"}, .lease = 1s}, options);
    runner.on_any(std::move(handler));
    return runner.run(stop.get_token());
  }
};

HandlerResult run_ended(const ClaimedJob&, Context&) {
  return Outcome(Complete{});
}

}  // namespace

TEST_CASE("a slot runs available jobs, waits with a parked claim, and ends before its time") {
  SlotRunnerRig rig;
  for (int i = 0; i < 5; ++i) rig.jobs.add("k");
  const auto slot = rig.run({.length = 1s, .estimate = 100ms, .tolerance = 3}, run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->handled == 5);
  CHECK(slot->worker.completed == 5);
  CHECK(slot->end == SlotEnd::full);
  CHECK(slot->ran > Duration(500ms));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }) < 12);  // it does not busy-wait
  CHECK(rig.jobs.lease_value("slot/default").find("\"k\"") != std::string::npos);
}

TEST_CASE("the original rule sleeps between claims, and ends when another sleep does not fit") {
  SlotRunnerRig rig;
  rig.jobs.add("k");
  const auto slot = rig.run(
      {.length = 1s, .rule = SlotRule::poll, .estimate = 20ms, .tolerance = 2, .idle = 300ms},
      run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->handled == 1);
  CHECK(slot->end == SlotEnd::empty);
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }) == 5);
  CHECK(rig.jobs.lease_value("slot/default").empty());
}

TEST_CASE("P7 a second instance of a name ends at once and names the holder of the slot") {
  SlotRunnerRig rig;
  std::latch began(1), go(1);
  rig.jobs.add("k");
  Result<SlotSummary> first = SlotSummary{};
  std::jthread other([&] {
    first = rig.run({.length = 1s, .estimate = 50ms}, [&](const ClaimedJob& job, Context& context) {
      began.count_down();
      go.wait();
      return run_ended(job, context);
    });
  });
  began.wait();
  const auto second = rig.run({.length = 1s}, run_ended);
  REQUIRE(second.has_value());
  CHECK(second->end == SlotEnd::held);
  CHECK_FALSE(second->holder.empty());
  CHECK(second->handled == 0);
  go.count_down();
  other.join();
  CHECK(first->handled == 1);
}

TEST_CASE("P7 a handler that takes longer than the slot is not interrupted") {
  SlotRunnerRig rig;
  rig.jobs.add("k");
  bool cut = true;
  const auto slot =
      rig.run({.length = 1s, .estimate = 50ms}, [&](const ClaimedJob& job, Context& context) {
        std::binary_semaphore told(0);
        std::stop_callback wake(context.stop_token(), [&] { told.release(); });
        cut = told.try_acquire_for(1200ms);
        return run_ended(job, context);
      });
  REQUIRE(slot.has_value());
  CHECK_FALSE(cut);
  CHECK(slot->handled == 1);
  CHECK(slot->slack < Duration(0));
}

TEST_CASE("a standby waits for the first run to end and continues at once: no gap, no overlap") {
  SlotRunnerRig rig;
  std::latch began(1), go(1);
  std::atomic<int> now = 0, most = 0;
  const auto handler = [&](const ClaimedJob& job, Context& context) {
    most = std::max(most.load(), ++now);
    if (job.args == "1") {
      began.count_down();
      go.wait();
    }
    --now;
    return run_ended(job, context);
  };
  rig.jobs.add("k", "1");
  Result<SlotSummary> first = SlotSummary{};
  std::stop_source stop;
  std::jthread other([&] {
    SlotRunner runner(rig.jobs, rig.clock, rig.random, rig.log, {.queues = {"q"}},
                      {.length = 60s, .estimate = 50ms});
    runner.on_any(handler);
    first = runner.run(stop.get_token());
  });
  began.wait();
  Result<SlotSummary> second = SlotSummary{};
  std::jthread standby([&] {
    second = rig.run({.length = 60s, .estimate = 50ms, .standby = true},
                     [&](const ClaimedJob& job, Context& context) {
                       rig.stop.request_stop();
                       return handler(job, context);
                     });
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.acquires >= 2; }));
  stop.request_stop();  // the first ends after its job
  rig.jobs.add("k", "2");
  CHECK(most == 1);
  go.count_down();
  other.join();
  standby.join();
  CHECK(first->end == SlotEnd::stopped);
  CHECK(first->handled == 1);
  CHECK(second->handled == 1);
  CHECK(most == 1);
}

TEST_CASE("a claimed job that does not fit is released without an attempt, once") {
  SlotRunnerRig rig;
  // The claim takes longer than expected.
  rig.jobs.on_claim = [&]() -> std::optional<Error> {
    std::binary_semaphore never(0);
    (void)never.try_acquire_for(3800ms);
    return std::nullopt;
  };
  const JobId id = rig.jobs.add("k");
  const auto slot = rig.run({.length = 4s, .estimate = 100ms, .tolerance = 3}, run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->handled == 0);
  CHECK(slot->given_back == 1);
  CHECK(rig.jobs.ended_as<Snooze>(id));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }) == 1);
}

TEST_CASE("a slot whose lease is lost claims nothing more") {
  SlotRunnerRig rig;
  rig.jobs.on_renew_lease = [&](const RenewLease& request) -> std::optional<Error> {
    if (request.value) return std::nullopt;
    return Error{.code = ErrorCode::lease_lost, .message = "gone"};
  };
  const auto slot = rig.run({.length = 20s, .estimate = 100ms}, run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->end == SlotEnd::lease_lost);
}
