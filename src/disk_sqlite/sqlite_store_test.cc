// What only the embedded store promises: its files, its lock, its marker, backups. The rest is in
// tests/conformance.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "disk_sqlite/database.h"
#include "disk_sqlite/inspect.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// A directory under /tmp that is removed when the test ends.
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

// The system's VFS. While `full` is set, every write to a write-ahead log fails with no space.
class FullDisk {
 public:
  static constexpr const char* kName = "full-disk-test";
  FullDisk() {
    system_ = sqlite3_vfs_find(nullptr);
    full = false;
    vfs_ = *system_;
    vfs_.zName = kName;
    vfs_.xOpen = [](sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
      const int code = system_->xOpen(system_, name, file, flags, out);
      if (code != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return code;
      methods_ = *file->pMethods;
      write_ = methods_.xWrite;
      methods_.xWrite = [](sqlite3_file* to, const void* bytes, int size, sqlite3_int64 at) {
        return full ? SQLITE_FULL : write_(to, bytes, size, at);
      };
      file->pMethods = &methods_;
      return code;
    };
    sqlite3_vfs_register(&vfs_, 0);
  }
  ~FullDisk() { sqlite3_vfs_unregister(&vfs_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  static inline std::atomic<bool> full = false;

 private:
  static inline sqlite3_vfs* system_ = nullptr;
  static inline sqlite3_vfs vfs_{};
  static inline sqlite3_io_methods methods_{};
  static inline decltype(sqlite3_io_methods::xWrite) write_ = nullptr;
};

Enqueue one(std::string kind = "work") {
  return Enqueue{.jobs = {NewJob{.kind = std::move(kind), .args = "{\"a\": 1}"}}};
}

// Enqueues jobs of 64 KiB until `bytes` are stored.
void fill(SqliteStoreFixture& fixture, Store& store, std::int64_t bytes) {
  constexpr std::size_t kArgs = 64 << 10;
  Enqueue batch;
  for (int i = 0; i < 32; ++i)
    batch.jobs.push_back({.kind = "work", .args = "\"" + std::string(kArgs, 'x') + "\""});
  for (; bytes > 0; bytes -= 32 * std::int64_t{kArgs}) fixture.apply(store, batch);
}

}  // namespace

TEST_CASE_FIXTURE(SqliteStoreFixture, "an enqueued job exists after the store is reopened") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "the size of a store is known while the store is open") {
  auto store = open();
  REQUIRE(store);
  const auto empty = size_of_sqlite_store(dir.path + "/data");
  REQUIRE(empty);
  CHECK(empty->kind == "sqlite");
  CHECK(empty->schema >= 1);
  CHECK(empty->bytes % 4096 == 0);
  CHECK(empty->directory == dir.path + "/data");
  NewJob large{.queue = "q", .kind = "k"};
  large.args = '"' + std::string(500'000, 'x') + '"';
  apply(**store, Enqueue{.jobs = {large}});
  const auto full = size_of_sqlite_store(dir.path + "/data");
  REQUIRE(full);
  CHECK(full->bytes - *full->free_bytes >= empty->bytes - *empty->free_bytes + 490'000);
  CHECK(*full->wal_bytes >= 500'000);
  CHECK(*full->free_bytes < full->bytes);
  CHECK(size_of_sqlite_store(dir.path).error().code == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "a verification reports each check that is done, and their number") {
  auto store = open();
  REQUIRE(store);
  std::vector<std::pair<int, int>> seen;
  const auto report =
      (*store)->verify_showing([&](int done, int of) { seen.emplace_back(done, of); });
  REQUIRE(report);
  CHECK(report->problems.empty());
  REQUIRE(seen.size() > 10);
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(seen[i] == std::pair(static_cast<int>(i + 1), static_cast<int>(seen.size())));
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "nothing is acknowledged once a file of the store is gone") {
  const std::string data = dir.path + "/data", away = dir.path + "/away";
  const auto copied = [](const std::string& file) {
    fs::copy_file(file, file + ".copy");
    fs::rename(file + ".copy", file);
  };
  const std::pair<std::string, std::function<void()>> misfortunes[] = {
      {"mainspring.db was removed", [&] { fs::remove(data + "/mainspring.db"); }},
      {"mainspring.db-wal was removed", [&] { fs::remove(data + "/mainspring.db-wal"); }},
      {"mainspring.db was removed or moved", [&] { fs::rename(data, away); }},
      {"mainspring.db was removed", [&] { fs::remove_all(data); }},
      {"mainspring.db was replaced", [&] { copied(data + "/mainspring.db"); }},
  };
  for (const auto& [says, happens] : misfortunes) {
    CAPTURE(says);
    fs::remove_all(data), fs::remove_all(away);
    auto store = *open();
    apply(*store, Enqueue{.jobs = {{.queue = "q", .kind = "k"}}});
    happens();
    const std::vector<Operation> next = {Enqueue{.jobs = {{.queue = "q", .kind = "k"}}}};
    const auto refused = store->apply(next, clock.now());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::io_error);
    CHECK(refused.error().message.find(says) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "a second opener is refused although OWNER was removed") {
  const auto first = *open();
  fs::remove(dir.path + "/data/OWNER");
  const auto second = open();
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "a store whose database vanished is not silently recreated") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "a database that was emptied, cut off or replaced is refused and left as it is") {
  {
    auto store = *open();
    for (int i = 0; i < 50; ++i) apply(*store, one());
  }
  const std::string path = dir.path + "/data/mainspring.db";
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::string foreign, no_tables;
  {
    const std::string other = dir.path + "/empty.db";
    sqlite::Database db(other, sqlite::Database::Mode::read_write_create, "");
    db.execute("VACUUM");
    db.execute("PRAGMA journal_mode = WAL");
    std::ifstream bytes(other, std::ios::binary);
    no_tables.assign(std::istreambuf_iterator<char>(bytes), {});
    REQUIRE(!no_tables.empty());
  }
  {
    const std::string other = dir.path + "/other.db";
    sqlite::Database db(other, sqlite::Database::Mode::read_write_create, "");
    db.execute("CREATE TABLE notes (text)");
    std::ifstream bytes(other, std::ios::binary);
    foreign.assign(std::istreambuf_iterator<char>(bytes), {});
  }
  struct Case {
    std::string content, says;
  };
  for (const Case& one_case :
       {Case{"", "empty (0 bytes)"}, Case{whole.substr(0, 100), "damaged, truncated"},
        Case{whole.substr(0, 4096), "damaged, truncated"},
        Case{whole.substr(0, whole.size() - 4096), "damaged, truncated"},
        Case{std::string(8192, 'x'), "damaged, truncated"}, Case{no_tables, "has no tables"},
        Case{foreign, "not a Mainspring store"}}) {
    CAPTURE(one_case.content.size());
    for (const char* name : {"-wal", "-shm"}) fs::remove(path + name);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << one_case.content;
    auto refused = open();
    REQUIRE_FALSE(refused);
    CAPTURE(refused.error().message);
    CHECK(refused.error().message.find(one_case.says) != std::string::npos);
    CHECK(refused.error().message.find(path) != std::string::npos);
    std::ifstream after(path, std::ios::binary);
    CHECK(std::string{std::istreambuf_iterator<char>(after), {}} == one_case.content);
  }
  for (const char* name : {"-wal", "-shm"}) fs::remove(path + name);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
  CHECK(open());
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "a backup made while running opens as a store and reuses no id or token") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "a small workflow has few rows, a large one rows for each step") {
  const auto chain = [](int steps) {
    WorkflowSpec spec{.name = "w", .input = "[7]", .result = "{}"};
    for (int i = 1; i <= steps; ++i) {
      StepSpec& step = spec.steps.emplace_back(StepSpec{.name = fmt::format("s{}", i)});
      step.job = NewJob{.kind = "work"};
      if (i == 1) continue;
      step.after = {fmt::format("s{}", i - 1)};
      step.job->args = fmt::format(R"({{"of":{{"$ref":"s{}"}},"in":{{"$ref":"input"}}}})", i - 1);
    }
    return spec;
  };
  auto store = *open();
  const auto rows_of_run = [&](WorkflowId id, int steps) {
    apply(*store, StartWorkflow{chain(steps)});
    for (int i = 1; i <= steps; ++i) {
      auto claimed = apply(*store, Claim{.worker = "w", .queues = {"default"}});
      const auto& jobs = std::get<ClaimResult>(claimed.results.front()).jobs;
      REQUIRE(jobs.size() == 1);
      if (i > 1) CHECK(store->get(jobs.front().id)->args == R"({"of":5,"in":[7]})");
      apply(*store, Finish{.worker = "w",
                           .results = {{jobs.front().id, jobs.front().token, Complete{"5"}}}});
    }
    CHECK(store->workflow(id)->state == WorkflowState::completed);
    CHECK(store->verify()->problems.empty());
    sqlite::Database db(dir.path + "/data/mainspring.db", sqlite::Database::Mode::read_only, "");
    return db.query_int(
        fmt::format("SELECT (SELECT count(*) FROM workflow_rows WHERE workflow = {0}) + (SELECT "
                    "count(*) FROM workflow_texts WHERE workflow = {0} AND kind <> 3)",
                    id)
            .c_str());
  };
  CHECK(rows_of_run(1, 16) == 2);           // its start request and its result
  CHECK(rows_of_run(2, 17) == 2 * 17 + 4);  // states, definitions, and four texts
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "reads of jobs and ledgers are counted, reads from memory are not") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "an invalid state, as on a damaged disk, is reported and its row is not shown") {
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

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "a list for a caller with few queues reads a limited number of jobs") {
  constexpr int kJobs = 15'000;  // more than one window
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

TEST_CASE_FIXTURE(SqliteStoreFixture, "a failed commit hides no queue from readers") {
  constexpr int kJobs = 20'000;
  const FullDisk disk;
  SqliteOptions options{.directory = dir.path + "/data", .reserve_bytes = 1 << 16};
  options.vfs = FullDisk::kName;
  auto store = *open_sqlite_store(options, clock.now(), log);
  Enqueue many;
  many.jobs.assign(kJobs, NewJob{.kind = "work"});
  apply(*store, many);

  std::atomic<bool> ends = false;
  int reads = 0, wrong = 0;
  std::thread reader([&] {
    while (!ends) {
      const auto queues = store->queues();
      ++reads;
      if (!queues || queues->size() != 1 || queues->at(0).enqueued != kJobs) ++wrong;
    }
  });
  for (int i = 0; i < 5; ++i) {
    FullDisk::full = true;
    const std::vector<Operation> batch{one()};
    const auto report = store->apply(batch, clock.now());
    CHECK(report);  // the job is refused, the batch is answered
    FullDisk::full = false;
  }
  ends = true;
  reader.join();
  CHECK(reads > 0);
  CHECK(wrong == 0);
  apply(*store, one());
  CHECK(store->queues()->at(0).enqueued == kJobs + 1);
}

TEST_CASE_FIXTURE(SqliteStoreFixture, "the log is short again after a slow reader has gone") {
  auto opened = open();
  REQUIRE(opened);
  Store& store = **opened;
  apply(store, one());
  const std::string database = dir.path + "/data/mainspring.db";
  const auto log_bytes = [&] { return fs::file_size(database + "-wal"); };
  auto reader = std::make_unique<sqlite::Database>(database, sqlite::Database::Mode::read_only, "");
  reader->execute("BEGIN");
  CHECK(reader->query_int("SELECT count(*) FROM jobs") == 1);
  fill(*this, store, 48 << 20);
  CHECK(log_bytes() > (40 << 20));
  SUBCASE("without another write") {
    reader.reset();
    clock.advance(11s);
    apply(store, Renew{.worker = "w"});
  }
  SUBCASE("not while it reads, and soon after it") {
    clock.advance(11s);
    apply(store, Renew{.worker = "w"});
    CHECK(log_bytes() > (40 << 20));
    reader.reset();
    clock.advance(11s);
    apply(store, Renew{.worker = "w"});
  }
  SUBCASE("under load, before the next look") {
    apply(store, Renew{.worker = "w"});
    reader.reset();
    for (int i = 0; i < 3; ++i) apply(store, one());
  }
  CHECK(log_bytes() < (40 << 20));
}

TEST_CASE_FIXTURE(SqliteStoreFixture,
                  "compacting gives the space of pruned jobs back to the disk") {
  const std::string data = dir.path + "/data";
  {
    auto opened = open();
    REQUIRE(opened);
    Store& store = **opened;
    fill(*this, store, 16 << 20);
    const auto refused = compact_sqlite_store(data, nullptr);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::conflict);
    const auto page = store.list({}, 1000, 0);
    REQUIRE(page);
    for (const Job& job : page->jobs) apply(store, Cancel{.id = job.id});
    clock.advance(24h * 400);
    for (int i = 0; i < 4; ++i) apply(store, PruneJobs{.limit = 1000});
    apply(store, one());
  }
  const auto before = inspect_sqlite_store(data);
  REQUIRE(before);
  std::int64_t whole = 0;
  const auto done = compact_sqlite_store(data, [&](std::int64_t bytes) { whole = bytes; });
  REQUIRE(done);
  CHECK(done->before > (16 << 20));
  CHECK(done->after < (2 << 20));
  CHECK(whole < (2 << 20));
  CHECK(inspect_sqlite_store(data)->jobs == before->jobs);
  CHECK(check_sqlite_pages(data)->empty());
  auto again = open();
  REQUIRE(again);
  CHECK((*again)->verify()->problems.empty());
  CHECK(compact_sqlite_store(dir.path + "/none", nullptr).error().code == ErrorCode::not_found);
}
