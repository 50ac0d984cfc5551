// Continuous timers: batch after batch, one run at a time, and always another run after this one.
#include "worker/continuous_timer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <thread>

#include "worker/fake_jobs.h"
#include "worker/stepped_clock.h"
#include "worker/worker.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// A worker with one timer "t" of kind "k".
struct ContinuousTimerRig {
  FakeJobs jobs;
  SystemClock system;
  const Clock& clock;
  SystemRandom random;
  NullLog log;
  TimerSlots slots{1000};
  WorkerRuntime worker{jobs, clock, random, log, {.queues = {"q"}, .slots = 8}};

  explicit ContinuousTimerRig(Continuous rule = {.timeout = 1h, .margin = 1s, .handoff = 0s})
      : ContinuousTimerRig(rule, system) {}
  ContinuousTimerRig(Continuous rule, const Clock& time) : clock(time) {
    jobs.set_timer("t", "k", rule);
  }
  // Call worker.stop() before objects used by the timers go out of scope.
  void on(const std::string& kind, ProcessBatch process, TimerOptions options = {}) {
    worker.on(kind, timer_handler(jobs, clock, random, slots, std::move(process), options),
              {.until_stopped = true});
  }
  JobId start(ProcessBatch process, TimerOptions options = {}) {
    on("k", std::move(process), std::move(options));
    REQUIRE(worker.start().has_value());
    return wake("t");
  }
  JobId wake(const std::string& name) {
    return jobs.trigger_schedule(name, TickSource::wake, {}).value().jobs.front();
  }
  std::vector<JobId> woken() {
    return jobs.with_lock([&] { return jobs.woken; });
  }
  void pause(const std::string& name = "t") {
    jobs.change_timer(name, [](ScheduleInfo& info) { info.paused = true; });
  }
};

}  // namespace

TEST_CASE("C1 the effective timeout is the override where there is one") {
  ScheduleInfo info;
  info.schedule.continuous = Continuous{};
  CHECK(effective_timeout(info) == Duration(20min));
  info.timeout_override = 5min;
  CHECK(effective_timeout(info) == Duration(5min));
  info.timeout_override = Duration(0);
  CHECK(effective_timeout(info) == Duration(20min));
}

TEST_CASE("C2 a run reaches its timeout when strictly less than the margin is left") {
  CHECK_FALSE(reaching_timeout(20min, 60s, 19min));
  CHECK(reaching_timeout(20min, 60s, 19min + 1us));
  CHECK_FALSE(reaching_timeout(20min, 60s, 0s));
}

TEST_CASE("C3 C7 near its timeout a run ends after its batch, and wakes itself") {
  ContinuousTimerRig rig;
  std::atomic<int> batches = 0;
  const JobId id = rig.start(
      [&](TimerContext& context, int max) -> Result<int> {
        CHECK(max == 100);
        CHECK(context.name() == "t");
        // From the second batch on, 100 ms are left.
        const Duration ran = 1h - 1s - context.remaining();
        if (++batches == 2) {
          rig.jobs.change_timer(
              "t", [&](ScheduleInfo& info) { info.timeout_override = ran + 1s + 100ms; });
        }
        return 0;
      },
      {.idle = 50ms});
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(rig.jobs.outcome<Complete>(id).result.starts_with(R"({"ended":"timeout","batches":)"));
  CHECK(batches >= 2);
  REQUIRE(rig.jobs.await([&] { return rig.jobs.woken.size() >= 2; }));
  CHECK(rig.woken()[1] != 0);
  // The next run continues.
  const int before = batches;
  REQUIRE(rig.jobs.await([&] { return batches > before; }));
  rig.worker.stop();
}

TEST_CASE("C1 a change of the override takes effect during the run") {
  ContinuousTimerRig rig;
  std::atomic<int> batches = 0;
  const JobId id = rig.start([&](TimerContext& context, int) -> Result<int> {
    if (++batches == 1) {
      CHECK(context.remaining() > Duration(30min));
      rig.jobs.change_timer("t", [](ScheduleInfo& info) { info.timeout_override = 500ms; });
    }
    return 1;
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(rig.jobs.outcome<Complete>(id).result == R"({"ended":"timeout","batches":1,"handled":1})");
  rig.worker.stop();
}

TEST_CASE("C4 the kill switch is read before every batch, and ends the run without a wake") {
  ContinuousTimerRig rig;
  std::atomic<int> batches = 0;
  const JobId id = rig.start([&](TimerContext&, int) -> Result<int> {
    if (++batches == 3) rig.pause();
    return batches < 50 ? Result<int>(1) : Error{.message = "too far"};
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(batches == 3);
  CHECK(rig.jobs.outcome<Complete>(id).result == R"({"ended":"stopped","batches":3,"handled":3})");
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.schedule_reads; }) == 4);
  CHECK(rig.woken().size() == 1);
  rig.worker.stop();
}

TEST_CASE("C4 nothing is processed while the kill switch cannot be read") {
  ContinuousTimerRig rig;
  std::atomic<int> reads = 0, batches = 0;
  rig.jobs.on_get_schedule = [&]() -> std::optional<Error> {
    if (++reads == 1) return Error{.code = ErrorCode::unavailable, .message = "away"};
    CHECK((batches > 0 || reads == 2));
    return std::nullopt;
  };
  const JobId id = rig.start([&](TimerContext&, int) -> Result<int> {
    CHECK(reads == 2);
    ++batches;
    rig.pause();
    return 1;
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(batches == 1);
  rig.worker.stop();
}

TEST_CASE("C5 each batch is a call of its own, with the run's token and a count") {
  ContinuousTimerRig rig;
  std::vector<int> numbers;
  std::set<Token> tokens;
  const JobId id = rig.start(
      [&](TimerContext& context, int max) -> Result<int> {
        CHECK(max == 7);
        numbers.push_back(context.batch());
        tokens.insert(context.token());
        if (numbers.size() == 3) rig.pause();
        return max;
      },
      {.batch = 7});
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(numbers == std::vector<int>{1, 2, 3});
  CHECK(tokens.size() == 1);
  CHECK(*tokens.begin() > 0);
  rig.worker.stop();
}

TEST_CASE("C6 an error or exception is recorded, and the timer wakes itself and continues") {
  ContinuousTimerRig rig;
  std::atomic<int> runs = 0;
  const JobId id = rig.start(
      [&](TimerContext&, int) -> Result<int> {
        switch (++runs) {
          case 1:
            return Error{.message = "the table is gone"};
          case 2:
            throw std::runtime_error("thrown");
          default:
            rig.pause();
            return 1;
        }
      },
      {.error_pause = 10ms});
  REQUIRE(rig.jobs.await([&] { return runs >= 3 && rig.jobs.outcomes.size() == 3; }));
  CHECK(rig.jobs.outcome<Dead>(id).reason == "batch_failed");
  CHECK(rig.jobs.outcome<Dead>(id).description == "batch 1: the table is gone");
  CHECK(rig.jobs.outcome<Dead>(rig.woken()[1]).description == "batch 1: thrown");
  CHECK(rig.jobs.ended_as<Complete>(rig.woken()[2]));
  // Consecutive errors increase the pause, and a successful batch resets it.
  CHECK(rig.jobs.lease_value("timer/t").empty());
  rig.worker.stop();
}

TEST_CASE("C8 a job that no schedule made is dead: the fallback and wakes start timers") {
  ContinuousTimerRig rig;
  rig.on("k", [](TimerContext&, int) -> Result<int> { return 0; });
  REQUIRE(rig.worker.start().has_value());
  const JobId id = rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.outcome<Dead>(id).reason == "no_timer");
  rig.worker.stop();
}

TEST_CASE("C9 slots limit the kinds at once: one timer per kind, and its standby shares the slot") {
  TimerSlots slots(2);
  SystemClock clock;
  const auto enter = [&](const char* kind, const char* name) {
    return slots.enter(kind, name, 5, 0s, {}, clock);
  };
  auto a = enter("a", "one");
  REQUIRE(a.has_value());
  CHECK_FALSE(enter("a", "other").has_value());  // of the same kind
  auto standby = enter("a", "one");
  CHECK(standby.has_value());
  auto b = enter("b", "two");
  REQUIRE(b.has_value());
  CHECK_FALSE(enter("c", "three").has_value());
  b.reset();
  CHECK(enter("c", "three").has_value());
  a.reset();
  CHECK_FALSE(enter("a", "other").has_value());  // the standby still exists
}

TEST_CASE("C9 the free slot goes to the highest priority, even if it came last") {
  TimerSlots slots(1);
  SystemClock clock;
  auto first = slots.enter("a", "a", 5, 0s, {}, clock);
  std::vector<std::string> order;
  Mutex mutex;
  const auto wait = [&](const char* kind, int priority) {
    const auto place = slots.enter(kind, kind, priority, 20s, {}, clock);
    MutexLock lock(mutex);
    order.emplace_back(kind);
  };
  std::vector<std::jthread> threads;
  for (int n = 0; const auto& [kind, priority] :
                  {std::pair("low", 9), std::pair("middle", 5), std::pair("high", 0)}) {
    threads.emplace_back(wait, kind, priority);
    ++n;
    while (slots.waiting() < n) std::this_thread::yield();
  }
  first.reset();
  threads.clear();
  CHECK(order == std::vector<std::string>{"high", "middle", "low"});
}

TEST_CASE("C9 a timer that finds no slot releases its job without an attempt") {
  ContinuousTimerRig rig;
  rig.jobs.set_timer("u", "other", {.timeout = 1h, .margin = 1s, .handoff = 0s});
  std::latch go(1);
  const auto process = [&](TimerContext&, int) -> Result<int> {
    go.wait();
    return 1;
  };
  rig.on("other", process);
  rig.start(process, {.timer_slots = 1});
  REQUIRE(rig.jobs.await([&] { return rig.jobs.schedule_reads == 1; }));
  const JobId id = rig.wake("u");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(rig.jobs.ended_as<Snooze>(id));
  rig.pause();
  go.count_down();
  rig.worker.stop();
}

TEST_CASE("C10 the standby is woken before the end, and starts when the first run has stopped") {
  SteppedClock time;
  ContinuousTimerRig rig({.timeout = 1500ms, .margin = 500ms, .handoff = 500ms}, time);
  std::atomic<int> now = 0, most = 0;
  std::set<Token> tokens;
  std::latch looked(1);
  const JobId id = rig.start([&](TimerContext& context, int) -> Result<int> {
    most = std::max(most.load(), ++now);
    tokens.insert(context.token());
    time.advance(20ms);
    if (tokens.size() == 2) looked.wait();
    if (tokens.size() == 3) rig.pause();
    --now;
    return 1;
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(rig.woken().size() == 2);  // the standby, and no other wake
  CHECK(rig.woken()[1] != 0);
  looked.count_down();
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.size() >= 3; }));
  CHECK(most == 1);
  CHECK(tokens.size() == 3);
  rig.worker.stop();
}

TEST_CASE("C10 a killed run that waits for its back-off is retried at the handover") {
  SteppedClock time;
  ContinuousTimerRig rig({.timeout = 1500ms, .margin = 500ms, .handoff = 800ms}, time);
  // The killed run is live, so no other run is woken.
  rig.jobs.change_timer("t", [](ScheduleInfo& info) { info.live.push_back(99); });
  rig.jobs.with_lock([&] { rig.jobs.states[99] = JobState::retryable; });
  const JobId id = rig.start([&](TimerContext&, int) -> Result<int> {
    time.advance(50ms);
    return 1;
  });
  REQUIRE(rig.jobs.await([&] { return !rig.jobs.retried.empty(); }));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.retried.front(); }) == 99);
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  // One wake was tried, not one for each batch, and none at the end.
  CHECK(rig.woken() == std::vector<JobId>{id, 0});
  rig.worker.stop();
}

TEST_CASE("C10 a run that loses its lease stops, and its job waits for its next start") {
  ContinuousTimerRig rig;
  rig.jobs.on_renew_lease = [&](const RenewLease&) -> std::optional<Error> {
    return Error{.code = ErrorCode::lease_lost, .message = "gone"};
  };
  const JobId id = rig.start(
      [&](TimerContext& context, int) -> Result<int> {
        std::binary_semaphore told(0);
        std::stop_callback wake(context.stop_token(), [&] { told.release(); });
        told.acquire();
        return Error{.message = "interrupted"};
      },
      {.lease = 1s});
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(id); }));
  CHECK(rig.jobs.ended_as<Snooze>(id));
  CHECK(rig.woken().size() == 1);
  rig.worker.stop();
}

TEST_CASE("a worker that ends releases the timer's job at once and without an attempt") {
  ContinuousTimerRig rig;
  std::latch began(1);
  const JobId id = rig.start(
      [&](TimerContext&, int) -> Result<int> {
        if (!began.try_wait()) began.count_down();
        return 0;
      },
      {.idle = 1h});
  began.wait();
  rig.jobs.tell_cancel(0);  // nothing
  rig.worker.stop();
  CHECK(rig.jobs.ended_as<Snooze>(id));
  CHECK(rig.woken().size() == 1);
  rig.worker.stop();
}

TEST_CASE("invalid timer options are refused") {
  const auto field = [](TimerOptions options) {
    const auto errors = options.validate();
    return errors.empty() ? "" : errors.front().field;
  };
  CHECK(field({}) == "");
  CHECK(field({.batch = 0}) == "batch");
  CHECK(field({.idle = 0s}) == "idle");
  CHECK(field({.lease = 10ms}) == "lease");
  CHECK(field({.error_pause = 2h}) == "error_pause");
  CHECK(field({.timer_slots = 0}) == "timer_slots");
}
