// Claims of sessions wait for the session head and get it in the commit that sets it; on a real
// store, stepped by hand.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const SessionKey kSessionClaimsSession{"orders", "customer/7"};

struct SessionClaimsAnswered {
  std::shared_ptr<std::optional<OperationResult>> slot =
      std::make_shared<std::optional<OperationResult>>();
  bool yet() const { return slot->has_value(); }
  template <class T>
  const T& as() const {
    REQUIRE(yet());
    REQUIRE(std::holds_alternative<T>(**slot));
    return std::get<T>(**slot);
  }
};

struct SessionFixture {
  SessionFixture() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  ~SessionFixture() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  void settle() {
    while (broker->step(clock.now()) <= clock.now().instant) {
    }
  }
  SessionClaimsAnswered submit(Operation operation) {
    SessionClaimsAnswered answered;
    broker->submit(std::move(operation),
                   [slot = answered.slot](OperationResult r) { *slot = std::move(r); });
    settle();
    return answered;
  }
  SessionClaimsAnswered claim(std::string line, Token token, Duration wait) {
    SessionClaimsAnswered answered;
    Claim claim{.worker = "w", .queues = {std::move(line)}};
    claim.session_token = token;
    broker->submit_claim(std::move(claim), wait,
                         [slot = answered.slot](OperationResult r) { *slot = std::move(r); });
    settle();
    return answered;
  }
  void enqueue(std::string session = kSessionClaimsSession.key) {
    NewJob job{.queue = "orders", .kind = "ship", .args = "{}"};
    job.session = std::move(session);
    const SessionClaimsAnswered made = submit(Enqueue{.jobs = {job}});
    REQUIRE(made.as<EnqueueResult>().jobs.size() == 1);
  }
  void finish(const ClaimedJob& job) {
    Finish finish{.worker = "w"};
    finish.results.push_back({job.id, job.token, Complete{}});
    CHECK(submit(std::move(finish)).as<FinishResult>().results[0] == FinishStatus::ok);
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

}  // namespace

TEST_CASE_FIXTURE(SessionFixture, "a holder's claim waits for the next job of its session") {
  const Token token = submit(AcceptSession{.worker = "w", .session = kSessionClaimsSession})
                          .as<SessionGrant>()
                          .token;
  const SessionClaimsAnswered parked = claim(session_queue(kSessionClaimsSession), token, 20s);
  CHECK_FALSE(parked.yet());
  enqueue();
  REQUIRE(parked.yet());
  const ClaimedJob first = parked.as<ClaimResult>().jobs.at(0);
  CHECK(first.session == kSessionClaimsSession.key);
  // The second claim waits for the end of the first job.
  enqueue();
  const SessionClaimsAnswered next = claim(session_queue(kSessionClaimsSession), token, 20s);
  CHECK_FALSE(next.yet());
  finish(first);
  REQUIRE(next.yet());
  CHECK(next.as<ClaimResult>().jobs.at(0).id > first.id);
}

TEST_CASE_FIXTURE(SessionFixture,
                  "a claim with another token than the holder's is refused at once") {
  const Token token = submit(AcceptSession{.worker = "w", .session = kSessionClaimsSession})
                          .as<SessionGrant>()
                          .token;
  CHECK(claim(session_queue(kSessionClaimsSession), token + 1, 20s).as<Error>().code ==
        ErrorCode::lease_lost);
  CHECK_FALSE(claim(session_queue(kSessionClaimsSession), token, 20s).yet());
}

TEST_CASE_FIXTURE(SessionFixture, "a claim that waits for a session gets it with its first job") {
  const SessionClaimsAnswered parked = claim(accept_queue("orders"), 0, 20s);
  CHECK_FALSE(parked.yet());
  enqueue();
  const ClaimResult& got = parked.as<ClaimResult>();
  REQUIRE(got.session);
  CHECK(got.session->session == kSessionClaimsSession);
  CHECK(got.jobs.size() == 1);
  const auto workers = broker->workers();
  REQUIRE(workers);
  CHECK(workers->at(0).queues == std::vector<std::string>{"orders"});
}

TEST_CASE_FIXTURE(SessionFixture, "a released session's jobs go to ordinary claims") {
  const Token token = submit(AcceptSession{.worker = "h", .session = kSessionClaimsSession})
                          .as<SessionGrant>()
                          .token;
  enqueue();
  const SessionClaimsAnswered parked = claim("orders", 0, 20s);
  CHECK_FALSE(parked.yet());
  submit(ReleaseSession{.session = kSessionClaimsSession, .token = token});
  CHECK(parked.as<ClaimResult>().jobs.size() == 1);
}
