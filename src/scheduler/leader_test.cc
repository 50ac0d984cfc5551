// One of several schedulers over a store leads; its writes are fenced; its duties are supervised.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "base/mutant.h"
#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"
#include "scheduler/scheduler.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// Counts what is logged as an error.
class CountingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view, const Fields&) override {
    errors += level == LogLevel::error ? 1 : 0;
  }
  int errors = 0;
};

struct Nodes {
  Nodes() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    open();
  }
  // Opens a copy of the files that `other` uses now.
  explicit Nodes(const std::string& other) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    std::filesystem::copy(other, directory, std::filesystem::copy_options::recursive);
    open();
  }
  ~Nodes() {
    close();
    std::filesystem::remove_all(directory);
  }
  void open() {
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  void close() {
    schedulers.clear();
    broker.reset();
    store.reset();
  }
  Scheduler& add() {
    schedulers.push_back(std::make_unique<Scheduler>(
        *broker, clock, log, registry,
        SchedulerOptions{.incarnation = "node-" + std::to_string(++made), .batch = 10}));
    return *schedulers.back();
  }
  // Steps the broker and the schedulers until nothing is due. Returns when to step again.
  Instant settle(const std::vector<Scheduler*>& alive) {
    while (true) {
      const auto commits = store->commits();
      Instant next = Instant::never();
      for (int round = 0; round < 3; ++round) {
        next = broker->step(clock.now());
        for (Scheduler* one : alive) next = std::min(next, one->step(clock.now()));
      }
      if (next > clock.now().instant && store->commits() == commits) return next;
    }
  }
  // Moves the clock from one due time to the next.
  void run_for(Duration time, const std::vector<Scheduler*>& alive) {
    const Instant end = clock.now().instant + time;
    while (clock.now().instant < end) {
      const Instant next = std::min(settle(alive), end);
      clock.advance(std::max(next - clock.now().instant, Duration(1)));
    }
    settle(alive);
  }
  void enqueue(NewJob job) {
    Enqueue request;
    request.jobs = {std::move(job)};
    broker->submit(std::move(request), [](OperationResult) {});
  }
  std::int64_t count(JobState state) {
    const auto queues = store->queues();
    return queues->empty() ? 0 : queues->at(0).counts[static_cast<std::size_t>(state)];
  }
  bool leads(const Scheduler& s) { return s.leads(clock.now().instant); }

  std::string directory;
  ManualClock clock;
  CountingLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  int made = 0;
};

}  // namespace

TEST_CASE_FIXTURE(Nodes, "T3, T5: exactly one of several schedulers leads, the others stand by") {
  Scheduler &a = add(), &b = add(), &c = add();
  run_for(1min, {&a, &b, &c});
  CHECK(leads(a) + leads(b) + leads(c) == 1);
}

TEST_CASE_FIXTURE(Nodes, "T3: when the leader dies, another one leads within the lease") {
  Scheduler &a = add(), &b = add();
  settle({&a});
  REQUIRE(leads(a));
  run_for(7s, {&a, &b});
  CHECK_FALSE(leads(b));
  const Instant died = clock.now().instant;  // a is no longer stepped
  enqueue({.kind = "work", .delay = 1s});
  while (!leads(b)) {
    const Instant next = settle({&b});
    if (leads(b)) break;
    REQUIRE(next < died + 11s);
    clock.advance(next - clock.now().instant);
  }
  CHECK(clock.now().instant - died <= 10s);
  settle({&b});
  CHECK(count(JobState::available) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a leader that stops cleanly is followed at once") {
  Scheduler &a = add(), &b = add();
  settle({&a});
  settle({&a, &b});
  REQUIRE(leads(a));
  a.stop();
  settle({&b});
  CHECK(leads(b));
}

TEST_CASE_FIXTURE(Nodes, "a node that stood still does not show that it leads past its lease") {
  Scheduler &a = add(), &b = add();
  a.step(clock.now());
  const Now before = clock.now();
  clock.advance(11s);  // it stands still during the commit that grants the lease
  broker->step(before);
  CHECK(!leads(a));
  run_for(10s, {&a});
  REQUIRE(leads(a));
  run_for(11s, {&b});  // now between its steps
  CHECK(leads(b));
  CHECK(!leads(a));  // before it looks again
  settle({&a, &b});
  CHECK(!leads(a));
  CHECK(leads(b));
}

TEST_CASE_FIXTURE(Nodes, "T3: after its lease every write of a stopped leader is refused") {
  Scheduler &a = add(), &b = add();
  settle({&a});
  settle({&a, &b});
  enqueue({.kind = "work", .delay = 30s});
  run_for(5s, {&a, &b});
  // a is stopped (SIGSTOP) just before it moves the job: its operation arrives a minute later.
  const Agenda agenda = broker->agenda();
  REQUIRE(agenda.next_due != WallTime::never());
  const Token old_term = store->lease("mainspring/leader", clock.now().instant)->token;
  run_for(60s, {&b});
  REQUIRE(leads(b));
  CHECK_FALSE(leads(a));  // its own clock shows it
  CHECK(count(JobState::available) == 1);
  const Fence stale{.lease = "mainspring/leader", .token = old_term};
  const Operation late[] = {MoveDue{.fence = stale}, RescueExpired{.fence = stale},
                            ExpireJobs{.fence = stale}, PruneJobs{.fence = stale},
                            FireSchedule{.name = "x", .fence = stale}};
  for (const Operation& operation : late) {
    std::optional<OperationResult> result;
    broker->submit(operation, [&](OperationResult r) { result = std::move(r); });
    settle({&b});
    REQUIRE(result);
    REQUIRE(std::holds_alternative<Error>(*result));
    CHECK(std::get<Error>(*result).code == ErrorCode::lease_lost);
  }
  settle({&a, &b});  // it continues, and learns
  CHECK_FALSE(leads(a));
  CHECK(leads(b));
}

TEST_CASE_FIXTURE(Nodes, "a leader that renews but does not work is replaced") {
  Scheduler &a = add(), &b = add();
  settle({&a});
  run_for(4s, {&a, &b});
  REQUIRE(leads(a));
  enqueue({.kind = "work", .delay = 1s});
  // Operations of a other than renewals are never answered: its duty hangs.
  set_mutant("leader_duties_hang");
  const Instant from = clock.now().instant;
  while (leads(a) && clock.now().instant < from + 60s) run_for(1s, {&a});
  set_mutant("");
  CHECK_FALSE(leads(a));
  CHECK(log.errors == 1);
  run_for(1s, {&b});
  CHECK(leads(b));
  CHECK(count(JobState::available) == 1);
  run_for(15s, {&a, &b});
  CHECK(leads(b));
}

TEST_CASE_FIXTURE(Nodes, "jobs due after a long idle time do not mean that the leader has failed") {
  Scheduler& a = add();
  enqueue({.kind = "work", .delay = 1s});
  run_for(2s, {&a});
  enqueue({.kind = "work", .delay = 10min});
  run_for(11min, {&a});
  CHECK(count(JobState::available) == 2);
  CHECK(leads(a));
  CHECK(log.errors == 0);
}

TEST_CASE_FIXTURE(Nodes, "an idle cluster of three makes no store transactions") {
  Scheduler &a = add(), &b = add(), &c = add();
  run_for(10s, {&a, &b, &c});
  const auto commits = store->commits();
  const auto reads = store->reads();
  run_for(10min, {&a, &b, &c});
  CHECK(store->commits() == commits);
  CHECK(store->reads() == reads);
  CHECK(leads(a) + leads(b) + leads(c) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an embedded node that starts again after a crash leads at once") {
  Scheduler& a = add();
  settle({&a});
  REQUIRE(leads(a));
  // The state after a kill: the files as they are, no lease released.
  Nodes again(directory);
  Scheduler& b = again.add();
  again.settle({&b});
  CHECK(again.leads(b));
  const auto term = [](const Nodes& nodes) {
    return nodes.store->lease("mainspring/leader", nodes.clock.now().instant)->token;
  };
  CHECK(term(again) > term(*this));
}

TEST_CASE_FIXTURE(Nodes, "terms never repeat, and each is larger than those before") {
  Token last = 0;
  for (int i = 0; i < 5; ++i) {
    Scheduler& one = add();
    settle({&one});
    const auto lease = store->lease("mainspring/leader", clock.now().instant);
    REQUIRE(lease.has_value());
    CHECK(lease->token > last);
    last = lease->token;
    one.stop();
    settle({});
  }
}
