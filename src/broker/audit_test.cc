// A change and its audit record are in one commit, no matter which caller waits and for how long.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct AuditFixture {
  explicit AuditFixture(BrokerOptions options = {}) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry, options);
  }
  ~AuditFixture() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  Instant step() { return broker->step(clock.now()); }
  std::vector<AuditRecord> records() const {
    return store->audit({}, AuditOrder::oldest_first, kMaxAuditPage, 0)->records;
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

Audit audit(std::string action) {
  return {.who = "ops",
          .from = "",
          .action = std::move(action),
          .object = "queue/q",
          .before = "",
          .after = ""};
}

const auto audit_ignore = [](OperationResult) {};

TEST_CASE_FIXTURE(AuditFixture, "a change and its audit record are one commit, answered once") {
  int answers = 0;
  const auto count = [&](const OperationResult&) { ++answers; };
  const std::int64_t before = store->commits();
  broker->submit(PauseQueue{"q", true}, count, audit("first"));
  broker->submit(PauseQueue{"q", false}, count, audit("second"));
  step();
  CHECK(answers == 2);
  CHECK(store->commits() == before + 1);
  const auto all = records();
  REQUIRE(all.size() == 2);
  CHECK(all[0].action == "first");
  CHECK(all[1].action == "second");
  CHECK(all[0].after == all[1].before);
}

TEST_CASE("a batch that is full is never cut between a change and its record") {
  AuditFixture f({.max_batch_jobs = 1});
  for (int i = 0; i < 6; ++i)
    f.broker->submit(PauseQueue{"q", i % 2 == 0}, audit_ignore, audit(std::to_string(i)));
  for (int i = 0; i < 6; ++i) f.step();
  const auto all = f.records();
  REQUIRE(all.size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(all[static_cast<std::size_t>(i)].action == std::to_string(i));
}

TEST_CASE("a change and its record count as one waiting operation") {
  AuditFixture f({.max_waiting_urgent = 2});
  std::vector<bool> refused;
  for (int i = 0; i < 3; ++i) {
    f.broker->submit(
        PauseQueue{"q", true},
        [&](const OperationResult& r) { refused.push_back(std::holds_alternative<Error>(r)); },
        audit("pause"));
  }
  CHECK(refused == std::vector<bool>{true});  // the third, at once
  f.step();
  CHECK(refused == std::vector<bool>{true, false, false});
}

TEST_CASE_FIXTURE(AuditFixture, "a claim that waited is recorded when it gets its job, and once") {
  Audit wanted = audit("claim");
  wanted.always = true;
  int jobs = -1;
  broker->submit_claim(
      {.worker = "w", .queues = {"q"}, .kinds = {}}, 20s,
      [&](OperationResult r) { jobs = static_cast<int>(std::get<ClaimResult>(r).jobs.size()); },
      wanted);
  step();
  CHECK(records().empty());
  Enqueue later;
  later.jobs.push_back(NewJob{.queue = "q", .kind = "work", .delay = 1s});
  broker->submit(std::move(later), audit_ignore);
  step();
  clock.advance(1s);
  broker->submit(MoveDue{}, audit_ignore);
  while (step() == clock.now().instant) {
  }
  CHECK(jobs == 1);
  const auto all = records();
  REQUIRE(all.size() == 1);
  CHECK(all[0].action == "claim");
}

TEST_CASE_FIXTURE(AuditFixture,
                  "a claim that is woken without a job keeps waiting with its record") {
  Audit wanted = audit("claim");
  wanted.always = true;
  Enqueue one, two;
  one.jobs.push_back(NewJob{.queue = "q", .kind = "work"});
  two.jobs = one.jobs;
  int served = 0;
  for (const char* worker : {"a", "b"}) {
    broker->submit_claim(
        {.worker = worker, .queues = {"q"}, .kinds = {"mail"}}, 20s,
        [&](const OperationResult& r) {
          served += static_cast<int>(std::get<ClaimResult>(r).jobs.size());
        },
        wanted);
  }
  step();
  broker->submit(std::move(one), audit_ignore);  // available, of a kind that no claim waits for
  while (step() == clock.now().instant) {
  }
  CHECK(broker->parked_claims() == 2);
  CHECK(records().empty());
  two.jobs[0].kind = "mail";
  broker->submit(std::move(two), audit_ignore);
  while (step() == clock.now().instant) {
  }
  CHECK(served == 1);
  CHECK(records().size() == 1);
}

}  // namespace
