// What only the embedded store promises: its files, its lock, its marker, backups. The rest is in
// tests/conformance.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "env/clock.h"
#include "store_sqlite/database.h"
#include "store_sqlite/inspect.h"
#include "store_sqlite/migrations.h"
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

struct SqliteStoreFixture {
  TempDir dir;
  ManualClock clock;
  NullLog log;
  Result<std::unique_ptr<Store>> open(bool packed = true) {
    return open_sqlite_store(
        {.directory = dir.path + "/data", .reserve_bytes = 1 << 16, .packed_workflows = packed},
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "an enqueued job is there after the store is opened again") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "a job goes from enqueue over claim to completed") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "a second process is refused with the pid of the first") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "a store whose database vanished is not silently made anew") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "a newer schema is refused") {
  { auto store = *open(); }
  {
    sqlite::Database db(dir.path + "/data/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute("PRAGMA user_version = 999");
  }
  auto refused = open();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("999") != std::string::npos);
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
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

namespace {

// Tables, indexes and their columns, as SQLite knows them.
std::string schema_of(sqlite::Database& db) {
  sqlite::Statement rows(db,
                         "SELECT m.name, group_concat(c.name) FROM sqlite_schema m JOIN "
                         "pragma_table_info(m.name) c WHERE m.name NOT LIKE 'sqlite%' GROUP BY "
                         "m.name ORDER BY m.name");
  std::string out;
  while (rows.step()) out += fmt::format("{}({})\n", rows.text(0), rows.text(1));
  return out;
}

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE_FIXTURE(SqliteStoreFixture, "a store of schema 1 is migrated at open and keeps what it has") {
  const std::string path = dir.path + "/data/mainspring.db";
  {
    auto store = *open();
    apply(*store, one());
    apply(*store, one("second"));
    apply(*store, Claim{.worker = "w", .queues = {"default"}});
  }
  {
    sqlite::Database db(path, sqlite::Database::Mode::read_write, "");
    db.execute(
        "DROP TABLE named_leases; DROP TABLE ledger; DROP TABLE schedule_jobs; DROP TABLE "
        "schedules; DROP TABLE removed_schedules; ALTER TABLE bodies DROP COLUMN schedule; "
        "DROP TABLE tokens; DROP TABLE audit; DROP TABLE audit_marks; DROP TABLE moves; "
        "ALTER TABLE errors DROP COLUMN program_end; "
        "ALTER TABLE bodies DROP COLUMN follow_ups; DROP TABLE sessions; "
        "DROP TABLE session_states; ALTER TABLE bodies DROP COLUMN session; ALTER TABLE bodies "
        "DROP COLUMN reply_session; DROP TABLE memos; DROP TABLE workflows; DROP TABLE "
        "workflow_rows; DROP TABLE workflow_texts; DROP TABLE "
        "workflow_jobs; DROP TABLE triggers; DROP TABLE trigger_events; ALTER TABLE queues DROP "
        "COLUMN limits; ALTER TABLE queues DROP COLUMN meter; ALTER TABLE queues DROP COLUMN "
        "opens_at; ALTER TABLE queues DROP COLUMN turns_at; DROP TABLE turns; DROP TABLE "
        "key_meters; DROP TABLE quarantine; DROP TABLE breakers; DROP INDEX uniques_ended; "
        "ALTER TABLE uniques DROP COLUMN ended; "
        "ALTER TABLE bodies "
        "DROP COLUMN limit_key; UPDATE tallies SET d = "
        "NULL, e = NULL WHERE id = 0; "
        "PRAGMA user_version = 1");
    sqlite::Database first(dir.path + "/first.db", sqlite::Database::Mode::read_write_create, "");
    first.execute(file_text(MAINSPRING_SOURCE_DIR "/sql/sqlite/0001_init.sql").c_str());
    REQUIRE(schema_of(db) == schema_of(first));
  }
  auto store = *open();
  CHECK(store->get(1)->state == JobState::running);
  CHECK(store->get(2)->kind == "second");
  CHECK(store->schedules("", 9)->empty());
  PutSchedule put{.schedule = {.name = "s", .every = 60s}, .next = clock.now().wall};
  put.next_fire = put.next;
  put.schedule.job.kind = "tick";
  apply(*store, put);
  const auto fired = std::get<FireResult>(
      apply(*store, FireSchedule{.name = "s", .source = TickSource::trigger, .ticks = {Tick{}}})
          .results[0]);
  CHECK(fired.jobs == std::vector<JobId>{3});
  CHECK(store->verify()->problems.empty());
  auto info = inspect_sqlite_store(dir.path + "/data");
  REQUIRE(info);
  CHECK(info->schema == sqlite::newest_schema());
  CHECK(info->schedules == 1);
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "workflows of older programs go on as they are, and new ones are packed") {
  const std::string path = dir.path + "/data/mainspring.db";
  StepSpec first{.name = "a"}, then{.name = "b", .after = {"a"}};
  first.job = NewJob{.kind = "work"};
  then.job = NewJob{.kind = "work", .args = R"({"of":{"$ref":"a"},"in":{"$ref":"input"}})"};
  const StartWorkflow start{
      WorkflowSpec{.name = "w", .input = "[7]", .steps = {first, then}, .result = "{}"}};
  {
    auto store = *open(false);
    apply(*store, start);
  }
  {
    sqlite::Database db(path, sqlite::Database::Mode::read_write, "");
    db.execute(
        "INSERT INTO workflow_rows SELECT * FROM workflow_texts; DROP TABLE workflow_texts; "
        "DROP INDEX uniques_ended; ALTER TABLE uniques DROP COLUMN ended; "
        "PRAGMA user_version = 19");
  }
  auto store = *open();
  const auto run = [&] {
    for (int i = 0; i < 2; ++i) {
      auto claimed = apply(*store, Claim{.worker = "w", .queues = {"default"}});
      const auto& jobs = std::get<ClaimResult>(claimed.results.front()).jobs;
      REQUIRE(jobs.size() == 1);
      if (i == 1) CHECK(store->get(jobs.front().id)->args == R"({"of":5,"in":[7]})");
      apply(*store, Finish{.worker = "w",
                           .results = {{jobs.front().id, jobs.front().token, Complete{"5"}}}});
    }
  };
  run();
  CHECK(store->workflow(1)->state == WorkflowState::completed);
  apply(*store, start);
  run();
  CHECK(store->workflow(2)->state == WorkflowState::completed);
  CHECK(store->verify()->problems.empty());
  const auto rows_of = [&](int workflow) {
    sqlite::Database db(path, sqlite::Database::Mode::read_only, "");
    return db.query_int(
        fmt::format("SELECT (SELECT count(*) FROM workflow_rows WHERE workflow = {0}) + (SELECT "
                    "count(*) FROM workflow_texts WHERE workflow = {0} AND kind <> 3)",
                    workflow)
            .c_str());
  };
  CHECK(rows_of(1) == 8);  // states, definitions, and four texts
  CHECK(rows_of(2) == 2);  // what it was started with, and its result
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "a store of schema 1 is inspected before it is migrated") {
  { auto store = *open(); }
  {
    sqlite::Database db(dir.path + "/data/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute("DROP TABLE named_leases; DROP TABLE schedules; PRAGMA user_version = 1");
  }
  auto info = inspect_sqlite_store(dir.path + "/data");
  REQUIRE(info);
  CHECK(info->schema == 1);
  CHECK(info->newest_schema == sqlite::newest_schema());
  CHECK(info->schedules == 0);
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "reads of jobs and ledgers are counted, those from memory are none") {
  auto store = *open();
  PutSchedule put{.schedule = {.name = "s", .every = 60s}, .next = clock.now().wall};
  put.next_fire = put.next;
  apply(*store, put);
  apply(*store, AcquireLease{.name = "l", .holder = "h"});
  const auto before = store->reads();
  (void)store->queues();
  (void)store->schedule("s");
  (void)store->schedules("", 9);
  (void)store->due_schedules(clock.now().wall, 9);
  (void)store->lease("l", clock.now().instant);
  (void)store->leases("", 9, clock.now().instant);
  (void)store->agenda();
  (void)store->has_available("default");
  CHECK(store->reads() == before);
  (void)store->get(1);
  (void)store->list({}, 9, 0);
  (void)store->ledger("s", 9, 0);
  CHECK(store->reads() == before + 3);
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "what no state is, as on a damaged disk, is told and shown to nobody") {
  WorkflowSpec spec{.name = "w", .steps = {{.name = "a", .signal = "go"}}};
  {
    auto store = *open();
    apply(*store, one());
    apply(*store, StartWorkflow{spec});
  }
  {
    sqlite::Database db(dir.path + "/data/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute("UPDATE jobs SET state = 99");
    db.execute("UPDATE workflows SET state = 99");
  }
  auto store = open();
  REQUIRE(store);
  CHECK((*store)->get(1).error().message.find("state has the unknown value 99") !=
        std::string::npos);
  CHECK_FALSE((*store)->workflow(1).has_value());
  CHECK_FALSE((*store)->verify()->problems.empty());
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "a list for a caller of few queues looks at a bounded number of jobs") {
  constexpr int kJobs = 25'000;  // more than one window
  auto store = *open();
  Enqueue first = one();
  first.jobs[0].queue = "mine";
  apply(*store, first);
  Enqueue many;
  many.jobs.assign(kJobs, NewJob{.queue = "theirs", .kind = "work"});
  apply(*store, many);
  const auto claimed = std::get<ClaimResult>(
      apply(*store, Claim{.worker = "w", .queues = {"mine", "theirs"}, .max = kJobs + 1})
          .results[0]);
  REQUIRE(claimed.jobs.size() == kJobs + 1);
  const auto scopes = std::make_shared<const Scopes>(*Scopes::parse("read=mine"));
  const auto pages = [&](std::optional<JobState> state) {
    const JobFilter filter{.state = state, .within = {scopes, Verb::read}};
    auto page = store->list(filter, 10, 0);
    REQUIRE(page);
    CHECK(page->jobs.empty());  // none within the bound
    REQUIRE(page->next);
    page = store->list(filter, 10, *page->next);
    REQUIRE(page);
    REQUIRE(page->jobs.size() == 1);
    CHECK(page->jobs[0].id == 1);
    CHECK_FALSE(page->next);
  };
  pages(JobState::running);
  Finish finish{.worker = "w", .results = {}};
  for (const ClaimedJob& job : claimed.jobs)
    finish.results.push_back({job.id, job.token, Dead{"poison", ""}});
  apply(*store, finish);
  pages(JobState::dead);
  pages(std::nullopt);
}
