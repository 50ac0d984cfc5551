// What only the embedded store promises: its files, its lock, its marker, backups. The rest is in
// tests/conformance.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "env/clock.h"
#include "store_sqlite/database.h"
#include "store_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// A directory under /tmp that goes when the test ends.
struct TempDir {
  TempDir() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    path = mkdtemp(name);
  }
  ~TempDir() { fs::remove_all(path); }
  std::string path;
};

struct Fixture {
  TempDir dir;
  ManualClock clock;
  NullLog log;
  Result<std::unique_ptr<Store>> open() {
    return open_sqlite_store({.directory = dir.path + "/data", .reserve_bytes = 1 << 16},
                             clock.now(), log);
  }
  BatchReport apply(Store& store, Operation op) {
    std::vector<Operation> batch;
    batch.push_back(std::move(op));
    auto report = store.apply(batch, clock.now());
    REQUIRE(report);
    return std::move(*report);
  }
};

Enqueue one(std::string kind = "work") {
  return Enqueue{.jobs = {NewJob{.kind = std::move(kind), .args = "{\"a\": 1}"}}};
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "an enqueued job is there after the store is opened again") {
  {
    auto store = *open();
    apply(*store, one());
  }
  auto store = *open();
  auto job = store->get(1);
  REQUIRE(job);
  CHECK(job->args == "{\"a\": 1}");
  CHECK(job->state == JobState::available);
  CHECK(store->has_available("default"));
  CHECK(store->verify()->problems.empty());
}

TEST_CASE_FIXTURE(Fixture, "a job goes from enqueue over claim to completed") {
  auto store = *open();
  apply(*store, one());
  auto claimed =
      std::get<ClaimResult>(apply(*store, Claim{.worker = "w", .queues = {"default"}}).results[0]);
  REQUIRE(claimed.jobs.size() == 1);
  CHECK(store->get(1)->state == JobState::running);
  auto report =
      apply(*store, Finish{.worker = "w", .results = {{1, claimed.jobs[0].token, Complete{"42"}}}});
  CHECK(std::get<FinishResult>(report.results[0]).results[0] == FinishStatus::ok);
  CHECK(report.effects.ended == std::vector<JobId>{1});
  CHECK(store->get(1)->result == "42");
  CHECK(store->queues()->at(0).counts[static_cast<int>(JobState::completed)] == 1);
  CHECK(store->verify()->problems.empty());
}

TEST_CASE_FIXTURE(Fixture, "a second process is refused with the pid of the first") {
  auto store = *open();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto second = open();
    const bool refused =
        !second && second.error().code == ErrorCode::conflict &&
        second.error().message.find(std::to_string(getppid())) != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE_FIXTURE(Fixture, "a store whose database vanished is not silently made anew") {
  { auto store = *open(); }
  for (const char* name :
       {"/data/mainspring.db", "/data/mainspring.db-wal", "/data/mainspring.db-shm"}) {
    fs::remove(dir.path + name);
  }
  auto refused = open();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("INITIALISED") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a newer schema is refused") {
  { auto store = *open(); }
  {
    sqlite::Database db(dir.path + "/data/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute("PRAGMA user_version = 999");
  }
  auto refused = open();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("999") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture,
                  "a backup made while running opens as a store, and gives no id or token again") {
  auto store = *open();
  apply(*store, one());
  const auto token =
      std::get<ClaimResult>(apply(*store, Claim{.worker = "w", .queues = {"default"}}).results[0])
          .jobs[0]
          .token;
  REQUIRE(store->backup(dir.path + "/copy"));
  CHECK(store->backup(dir.path + "/copy").error().code == ErrorCode::conflict);
  auto later = std::get<EnqueueResult>(apply(*store, one()).results[0]).jobs[0].id;

  auto copy = open_sqlite_store({.directory = dir.path + "/copy", .reserve_bytes = 1 << 16},
                                clock.now(), log);
  REQUIRE(copy);
  CHECK((*copy)->get(1)->state == JobState::running);
  auto id = std::get<EnqueueResult>(apply(**copy, one()).results[0]).jobs[0].id;
  CHECK(id > later);
  auto claimed =
      std::get<ClaimResult>(apply(**copy, Claim{.worker = "x", .queues = {"default"}}).results[0]);
  CHECK(claimed.jobs.at(0).token > token + 1'000'000);
  CHECK((*copy)->verify()->problems.empty());
}
