// A broker that stood still, cannot reach its store, or is about to restart.
#include <doctest/doctest.h>

#include "broker/nodes_bench.h"

using namespace mainspring;

namespace {

// One broker over a store that can hang or be unavailable, stepped by hand.
struct Standing {
  explicit Standing(bool shared = false) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    db.store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    node = std::make_unique<NodeStore>(db);
    broker = std::make_unique<Broker>(*node, clock, log, registry, BrokerOptions{.standstill = 3s});
    if (shared) broker->share(*node, random, [](const ChangeHints&) {});
    submit(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "k"}}});
    broker->submit_claim({.worker = "w", .queues = {"q"}}, 0s,
                         [this](OperationResult r) { job = std::get<ClaimResult>(r).jobs.at(0); });
    step();
    REQUIRE(job.id != 0);
  }
  ~Standing() {
    broker.reset();
    node.reset();
    db.store.reset();
    std::filesystem::remove_all(directory);
  }

  Instant step() { return broker->step(clock.now()); }
  OperationResult submit(Operation operation) {
    OperationResult answer;
    broker->submit(std::move(operation), [&](OperationResult r) { answer = std::move(r); });
    step();
    return answer;
  }
  // As the commit loop does, once a second.
  void run_for(Duration length) {
    for (; length > Duration(0); length -= 1s) {
      clock.advance(1s);
      step();
    }
  }
  int rescued() { return std::get<StepResult>(submit(RescueExpired{})).changed; }
  bool renewed() {
    const auto result = submit(Renew{.worker = "w", .leases = {{job.id, job.token}}});
    return !std::get<RenewResult>(result).renewed.empty();
  }

  std::string directory;
  ManualClock clock;
  SystemRandom random;
  NullLog log;
  Registry registry;
  Database db;
  std::unique_ptr<NodeStore> node;
  std::unique_ptr<Broker> broker;
  ClaimedJob job;
};

}  // namespace

TEST_CASE("a rescue that is the first operation after a standstill rescues nothing") {
  Standing s;
  s.run_for(20s);
  s.clock.advance(45s);
  CHECK(s.rescued() == 0);
  CHECK(s.renewed());
}

TEST_CASE("a renewal as the first operation after a standstill is in time") {
  Standing s;
  s.run_for(20s);
  s.clock.advance(1h);
  CHECK(s.renewed());
}

TEST_CASE("a worker that is silent while the broker runs loses its lease in time") {
  Standing s;
  s.run_for(29s);
  CHECK(s.rescued() == 0);
  s.run_for(2s);
  CHECK(s.rescued() == 1);
}

TEST_CASE("two standstills, one after the other, do not end a lease either") {
  Standing s;
  s.run_for(10s);
  s.clock.advance(45s);
  s.run_for(2s);
  s.clock.advance(45s);
  CHECK(s.rescued() == 0);
  s.run_for(17s);
  CHECK(s.rescued() == 0);
  s.run_for(2s);
  CHECK(s.rescued() == 1);
}

TEST_CASE("a commit that hangs is a standstill that is counted once") {
  Standing s;
  s.run_for(10s);
  s.db.slow = [&] { s.clock.advance(60s); };
  s.submit(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "k"}}});
  s.db.slow = nullptr;
  CHECK(s.rescued() == 0);
  s.run_for(18s);
  CHECK(s.rescued() == 0);
  s.run_for(3s);
  CHECK(s.rescued() == 1);
}

TEST_CASE("time without a reachable database costs no lease") {
  Standing s(true);
  s.run_for(10s);
  s.db.away = true;
  for (int i = 0; i < 60; ++i) {
    s.clock.advance(1s);
    if (i % 5 == 0) {
      const auto refused = s.submit(Renew{.worker = "w", .leases = {{s.job.id, s.job.token}}});
      CHECK(std::get<Error>(refused).code == ErrorCode::unavailable);
    }
    s.step();
  }
  s.db.away = false;
  CHECK(s.rescued() == 0);
  CHECK(s.renewed());
}

TEST_CASE("a batch whose leases could not be extended is refused, not done") {
  Standing s(true);
  s.run_for(10s);
  s.clock.advance(60s);
  s.db.away = true;
  CHECK(std::get<Error>(s.submit(RescueExpired{})).code == ErrorCode::unavailable);
  s.db.away = false;
  CHECK(s.rescued() == 0);
}

TEST_CASE("the broker ticks while leases are held, and sleeps while none is") {
  Standing s;
  CHECK(s.step() <= s.clock.now().instant + 1s);
  s.submit(Finish{.worker = "w", .results = {{s.job.id, s.job.token, Complete{}}}});
  CHECK(s.step() == Instant::never());
  s.clock.advance(1h);
  CHECK(s.step() == Instant::never());  // there are no leases to extend
}

TEST_CASE("a restart waits for the renewals of workers that run jobs, but not for late ones") {
  Standing s;
  s.run_for(15s);  // its renewal is overdue: it has died
  REQUIRE(s.broker->allow_restart(2min).has_value());
  s.broker->wait_for_renewals(Instant::never());

  CHECK(s.renewed());  // it has not
  s.broker->wait_for_renewals(Instant::never());
  s.run_for(119s);
  CHECK(s.rescued() == 0);
}

TEST_CASE("a worker ends only its own waiting claims") {
  Standing s;
  int ended = 0, other = 0;
  const auto wait = [&](const char* worker, int& count) {
    s.broker->submit_claim({.worker = worker, .queues = {"empty"}}, 20s,
                           [&](const OperationResult& r) {
                             count += std::get<ClaimResult>(r).jobs.empty() ? 1 : 100;
                           });
  };
  wait("w1", ended), wait("w1", ended), wait("w2", other);
  s.step();
  CHECK(s.broker->end_claims("w1", {}) == 2);
  s.step();
  CHECK(ended == 2);
  CHECK(other == 0);
  CHECK(s.broker->end_claims("w1", {}) == 0);
}
