// The scheduler handles due jobs in bounded steps and sleeps until the next due time.
#include "scheduler/scheduler.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Fixture {
  Fixture() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
    scheduler = std::make_unique<Scheduler>(*broker, clock, log, registry,
                                            SchedulerOptions{.incarnation = "n1", .batch = 10});
  }
  ~Fixture() {
    scheduler.reset();
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  // Steps both until nothing is due; returns the time of the next step.
  Instant settle() {
    while (true) {
      const std::int64_t before = store->commits();
      Instant next = Instant::never();
      for (int round = 0; round < 3; ++round)
        next = std::min(broker->step(clock.now()), scheduler->step(clock.now()));
      if (next > clock.now().instant && store->commits() == before) return next;
    }
  }
  void run_until(Instant end) {
    while (clock.now().instant < end) {
      const Instant next = std::min(settle(), end);
      clock.advance(next - clock.now().instant);
    }
    settle();
  }
  void enqueue(NewJob job, int count = 1) {
    Enqueue request;
    request.jobs.assign(static_cast<std::size_t>(count), job);
    broker->submit(std::move(request), [](OperationResult) {});
    broker->step(clock.now());
  }
  std::int64_t count(JobState state) {
    return store->queues()->at(0).counts[static_cast<std::size_t>(state)];
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "due jobs become available at their time, not before, however many there are") {
  enqueue({.kind = "work", .delay = 10s}, 55);
  const Instant due = clock.now().instant + 10s;
  run_until(due - 1us);
  CHECK(count(JobState::available) == 0);
  run_until(due);
  CHECK(count(JobState::available) == 55);
}

TEST_CASE_FIXTURE(Fixture, "an expired lease is rescued and counts as a failed attempt") {
  enqueue({.kind = "work", .max_attempts = 2});
  for (int attempt = 1; attempt <= 2; ++attempt) {
    std::optional<ClaimResult> got;
    broker->submit_claim({.worker = "w", .queues = {"default"}, .lease = 30s}, 0s,
                         [&](OperationResult r) { got = std::get<ClaimResult>(std::move(r)); });
    broker->step(clock.now());
    REQUIRE(got);
    REQUIRE(got->jobs.size() == 1);
    CHECK(got->jobs[0].attempt == attempt);
    clock.advance(1s);
    broker->submit(Renew{.worker = "w", .leases = {{got->jobs[0].id, got->jobs[0].token}}},
                   [](OperationResult) {});
    broker->step(clock.now());
    clock.advance(30s);
    settle();
    clock.advance(1h);
    settle();
  }
  const Job job = *store->get(1);
  CHECK(job.state == JobState::dead);
  CHECK(job.reason == "max_attempts");
  REQUIRE(job.errors.size() == 2);
  CHECK(job.errors[0].message.find("lease expired") == 0);
  CHECK(job.errors[0].ran_for == 31s);
}

TEST_CASE_FIXTURE(Fixture,
                  "jobs that do not start in time expire; terminal ones are pruned by retention") {
  enqueue({.kind = "work", .expires_in = 5s}, 25);
  clock.advance(5s);
  settle();
  CHECK(store->queues()->at(0).expired == 25);
  CHECK(store->get(1)->reason == "expired");
  clock.advance(24h + 1s);
  settle();
  CHECK(store->queues()->at(0).pruned == 25);
  CHECK(store->get(1).error().code == ErrorCode::expired);
  CHECK(store->verify()->problems.empty());
}

TEST_CASE_FIXTURE(
    Fixture, "when the wall clock is set forward, due jobs are found within the longest sleep") {
  enqueue({.kind = "work", .delay = 1h});
  settle();
  clock.step_wall(2h);
  const Instant next = settle();
  CHECK(count(JobState::available) == 1);
  CHECK(next <= clock.now().instant + 60s);
}

TEST_CASE_FIXTURE(Fixture, "a queue closed by its rate opens in time and wakes waiting claims") {
  SetQueueLimits limits{.queue = "default", .limits = {}};
  limits.limits.rate = RateLimit{.count = 2, .per = 20s, .kind = RateKind::fixed};
  broker->submit(limits, [](OperationResult) {});
  enqueue({.kind = "work"}, 3);
  int given = 0;
  const auto claim = [&] {
    broker->submit_claim({.worker = "w", .queues = {"default"}}, 1min, [&](OperationResult r) {
      given += static_cast<int>(std::get<ClaimResult>(r).jobs.size());
    });
  };
  for (int i = 0; i < 3; ++i) claim();
  settle();
  CHECK(given == 2);
  const WallTime opens = store->queues()->at(0).opens_at.value();
  run_until(clock.now().instant + (opens - clock.now().wall) - 1us);
  CHECK(given == 2);
  run_until(clock.now().instant + 1us);
  CHECK(given == 3);
  CHECK_FALSE(store->queues()->at(0).opens_at);
}

TEST_CASE_FIXTURE(Fixture, "an idle scheduler makes no store transactions") {
  settle();
  const auto before = store->commits();
  run_until(clock.now().instant + 1h);
  CHECK(store->commits() == before);
}
