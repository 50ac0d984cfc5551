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
#include "worker/stepped_clock.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct SlotRunnerRig {
  FakeJobs jobs;
  SystemClock clock;
  const Clock* time = &clock;  // the runner's
  SystemRandom random;
  NullLog log;
  Duration lease = kDefaultLease;
  std::stop_source stop;

  Result<SlotSummary> run(const SlotOptions& options, Handler handler) {
    SlotRunner runner(jobs, *time, random, log, {.queues = {"q"}, .lease = lease}, options);
    runner.on_any(std::move(handler));
    return runner.run(stop.get_token());
  }
};

HandlerResult run_ended(const ClaimedJob&, Context&) {
  return Outcome(Complete{});
}

}  // namespace

TEST_CASE("a slot runs available jobs, waits with a parked claim, and ends before its time") {
  SteppedClock time;
  SlotRunnerRig rig;
  rig.time = &time;
  rig.jobs.on_idle_claim = [&](Duration wait) { time.advance(wait); };
  for (int i = 0; i < 5; ++i) rig.jobs.add("k");
  const auto slot = rig.run({.length = 1s, .estimate = 100ms, .tolerance = 3}, run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->handled == 5);
  CHECK(slot->worker.completed == 5);
  CHECK(slot->end == SlotEnd::full);
  CHECK(slot->ran > Duration(500ms));
  CHECK(slot->slack > Duration(0));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }) < 12);  // it does not busy-wait
  CHECK(rig.jobs.lease_value("slot/default").find("\"k\"") != std::string::npos);
}

TEST_CASE("the original rule sleeps between claims, and ends when another sleep does not fit") {
  SteppedClock time;
  SlotRunnerRig rig;
  rig.time = &time;
  rig.jobs.on_idle_claim = [](Duration) {};
  // The thread that claims, and how often it had read the clock before each claim.
  std::thread::id claimer;
  std::vector<int> reads;
  rig.jobs.on_claim = [&]() -> std::optional<Error> {
    rig.jobs.with_lock([&] {
      claimer = std::this_thread::get_id();
      reads.push_back(time.reads(claimer));
    });
    return std::nullopt;
  };
  rig.jobs.add("k");
  Result<SlotSummary> slot = SlotSummary{};
  std::jthread runner([&] {
    slot = rig.run(
        {.length = 1s, .rule = SlotRule::poll, .estimate = 20ms, .tolerance = 2, .idle = 300ms},
        run_ended);
  });
  for (std::size_t sleeping = 2; sleeping <= 4; ++sleeping) {
    REQUIRE(rig.jobs.await([&] { return reads.size() >= sleeping; }));
    // To plan, to find the end of the sleep, and to see that it has not come.
    time.await_reads(claimer, rig.jobs.with_lock([&] { return reads[sleeping - 1]; }) + 3);
    time.advance(300ms);
  }
  runner.join();
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
    first =
        rig.run({.length = 1min, .estimate = 50ms}, [&](const ClaimedJob& job, Context& context) {
          began.count_down();
          go.wait();
          rig.stop.request_stop();
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
  SteppedClock time;
  SlotRunnerRig rig;
  rig.time = &time;
  rig.jobs.add("k");
  bool cut = true;
  const auto slot =
      rig.run({.length = 1s, .estimate = 50ms}, [&](const ClaimedJob& job, Context& context) {
        std::binary_semaphore told(0);
        std::stop_callback wake(context.stop_token(), [&] { told.release(); });
        time.advance(1200ms);
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
  SteppedClock time;
  SlotRunnerRig rig;
  rig.time = &time;
  // The claim takes longer than expected.
  rig.jobs.on_claim = [&]() -> std::optional<Error> {
    time.advance(3800ms);
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
  rig.lease = 1s;
  rig.jobs.on_renew_lease = [&](const RenewLease& request) -> std::optional<Error> {
    if (request.value) return std::nullopt;
    return Error{.code = ErrorCode::lease_lost, .message = "gone"};
  };
  const auto slot = rig.run({.length = 20s, .estimate = 100ms}, run_ended);
  REQUIRE(slot.has_value());
  CHECK(slot->end == SlotEnd::lease_lost);
}
