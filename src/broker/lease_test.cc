// Waiting acquires and what wakes them; on a real store, stepped by hand.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// Receives an answer. Shared with the callback, which may outlive the test's scope.
struct Answered {
  std::shared_ptr<std::optional<OperationResult>> slot =
      std::make_shared<std::optional<OperationResult>>();
  bool yet() const { return slot->has_value(); }
  bool granted() const { return yet() && std::holds_alternative<LeaseGrant>(**slot); }
  const LeaseGrant& grant() const { return std::get<LeaseGrant>(**slot); }
  ErrorCode code() const { return std::get<Error>(**slot).code; }
};

struct LeaseFixture {
  LeaseFixture() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  ~LeaseFixture() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  Instant settle() {
    Instant next;
    while ((next = broker->step(clock.now())) <= clock.now().instant) {
    }
    return next;
  }
  Answered acquire(std::string holder, Duration wait = 0s, Broker::ParkId* id = nullptr) {
    Answered answered;
    const auto handle =
        broker->submit_acquire({.name = "report", .holder = std::move(holder), .ttl = 15s}, wait,
                               [slot = answered.slot](OperationResult r) { *slot = std::move(r); });
    if (id != nullptr) *id = handle;
    return answered;
  }
  Answered submit(Operation operation) {
    Answered answered;
    broker->submit(std::move(operation),
                   [slot = answered.slot](OperationResult r) { *slot = std::move(r); });
    return answered;
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

}  // namespace

TEST_CASE_FIXTURE(LeaseFixture, "an acquire without waiting returns the current holder at once") {
  const Answered a = acquire("a");
  settle();
  REQUIRE(a.granted());
  const Answered b = acquire("b");
  settle();
  REQUIRE(b.yet());
  CHECK(b.code() == ErrorCode::lease_held);
  CHECK(std::get<Error>(**b.slot).message.find("a") != std::string::npos);
}

TEST_CASE_FIXTURE(LeaseFixture, "a waiting acquire is granted in the commit of the release") {
  const Answered a = acquire("a");
  settle();
  const Answered b = acquire("b", 60s);
  const Answered c = acquire("c", 60s);
  settle();
  CHECK_FALSE(b.yet());
  const auto before = store->commits();
  submit(ReleaseLease{.name = "report", .holder = "a", .token = a.grant().token});
  broker->step(clock.now());
  REQUIRE(b.granted());
  CHECK(b.grant().token > a.grant().token);
  CHECK(store->commits() == before + 1);
  CHECK_FALSE(c.yet());
  submit(ReleaseLease{.name = "report", .holder = "b", .token = b.grant().token});
  settle();
  CHECK(c.granted());
}

TEST_CASE_FIXTURE(LeaseFixture, "a waiting acquire gets the lease when it expires") {
  acquire("a");
  settle();
  const Answered b = acquire("b", 60s);
  const auto before = store->commits();
  CHECK(settle() == clock.now().instant + 15s);
  clock.advance(15s - 1us);
  settle();
  CHECK_FALSE(b.yet());
  CHECK(store->commits() == before);
  clock.advance(1us);
  settle();
  CHECK(b.granted());
}

TEST_CASE_FIXTURE(LeaseFixture,
                  "a renewal makes waiting acquires wait longer, without a transaction") {
  const Answered a = acquire("a");
  settle();
  const Answered b = acquire("b", 60s);
  settle();
  const auto before = store->commits();
  for (int i = 0; i < 6; ++i) {
    clock.advance(5s);
    submit(RenewLease{.name = "report", .holder = "a", .token = a.grant().token});
    settle();
  }
  CHECK_FALSE(b.yet());
  CHECK(store->commits() == before);
  clock.advance(15s);
  settle();
  CHECK(b.granted());
}

TEST_CASE_FIXTURE(LeaseFixture,
                  "an acquire that waits until its timeout returns that the lease is still held") {
  const Answered a = acquire("a");
  settle();
  const Answered b = acquire("b", 10s);
  settle();
  clock.advance(9s);
  submit(RenewLease{.name = "report", .holder = "a", .token = a.grant().token});
  settle();
  clock.advance(1s);
  settle();
  REQUIRE(b.yet());
  CHECK(b.code() == ErrorCode::lease_held);
}

TEST_CASE_FIXTURE(LeaseFixture, "an abandoned acquire gets nothing, and the next one is granted") {
  const Answered a = acquire("a");
  settle();
  Broker::ParkId id = 0, fresh = 0;
  const Answered b = acquire("b", 60s, &id);
  const Answered c = acquire("c", 60s);
  settle();
  const Answered d = acquire("d", 60s, &fresh);
  broker->abandon(fresh);  // before it was ever tried
  broker->abandon(id);
  settle();
  REQUIRE(b.yet());
  CHECK(b.code() == ErrorCode::lease_held);
  REQUIRE(d.yet());
  CHECK(d.code() == ErrorCode::lease_held);
  submit(ReleaseLease{.name = "report", .holder = "a", .token = a.grant().token});
  settle();
  CHECK(c.granted());
}

TEST_CASE_FIXTURE(LeaseFixture, "a stop answers waiting acquires") {
  acquire("a");
  settle();
  const Answered b = acquire("b", 60s);
  settle();
  broker->stop_claims();
  settle();
  REQUIRE(b.yet());
  CHECK(b.code() == ErrorCode::lease_held);
}

TEST_CASE_FIXTURE(LeaseFixture, "clients cannot acquire the engine's own leases") {
  const auto refused =
      broker->acquire_lease({.name = "mainspring/leader", .holder = "me", .ttl = 15s}, 0s, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().field == "name");
  CHECK(broker->renew_lease({.name = "x", .holder = "h", .token = 0}).error().field == "token");
  CHECK(broker->acquire_lease({.name = "x", .holder = "", .ttl = 15s}, 0s, {}).error().field ==
        "holder");
  CHECK(broker->acquire_lease({.name = "x", .holder = "h", .ttl = 1ms}, 0s, {}).error().field ==
        "ttl");
  CHECK(broker->renew_lease({.name = "x", .holder = "h", .token = 1, .value = "{"}).error().field ==
        "value");
}

TEST_CASE_FIXTURE(LeaseFixture, "blocking calls: acquire, wait, stop, release, from threads") {
  broker->start();
  const auto a = broker->acquire_lease({.name = "report", .holder = "a", .ttl = 15s}, 0s, {});
  REQUIRE(a.has_value());
  std::stop_source stop;
  std::jthread gives_up([&] {
    const auto got =
        broker->acquire_lease({.name = "report", .holder = "b", .ttl = 15s}, 60s, stop.get_token());
    CHECK(got.error().code == ErrorCode::lease_held);
  });
  stop.request_stop();
  gives_up.join();
  std::jthread waits([&] {
    const auto got = broker->acquire_lease({.name = "report", .holder = "c", .ttl = 15s}, 60s, {});
    REQUIRE(got.has_value());
    CHECK(got->token > a->token);
  });
  REQUIRE(broker->release_lease({.name = "report", .holder = "a", .token = a->token}).has_value());
  waits.join();
  CHECK(broker->get_lease("report")->holder == "c");
  CHECK(broker->leases("", 10)->size() == 1);
}
