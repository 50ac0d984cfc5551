// The audit of the embedded store against changes made directly in the database.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "disk_sqlite/database.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"

using namespace mainspring;

namespace {

constexpr int kRecords = 6;
constexpr const char* kDropTriggers =
    "DROP TRIGGER audit_appends_only; DROP TRIGGER audit_never_changes; DROP TRIGGER "
    "audit_oldest_go_first; DROP TRIGGER audit_marks_advance; DROP TRIGGER audit_marks_stay;";

// A store with six records, and changes that another process makes to its file.
struct Fixture {
  Fixture() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    open();
    for (int i = 0; i < kRecords; ++i) pause(i % 2 == 0);
    REQUIRE(problems().empty());
  }
  ~Fixture() {
    store.reset();
    std::filesystem::remove_all(directory);
  }
  void open() {
    store.reset();
    StoreOptions options;
    options.audit_retention = std::chrono::hours(1);
    auto opened = open_sqlite_store(
        {.directory = directory + "/data", .store = options, .reserve_bytes = 0}, clock.now(), log);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  void pause(bool paused) {
    std::vector<Operation> batch = {PauseQueue{"q", paused}, Audit{.who = "ops",
                                                                   .from = "unix uid=1000",
                                                                   .action = "pause_queue",
                                                                   .object = "queue/q",
                                                                   .before = "",
                                                                   .after = ""}};
    const auto report = store->apply(batch, clock.now());
    REQUIRE(report);
    REQUIRE(std::holds_alternative<Done>(report->results[1]));
  }
  // "" or SQLite's reason to refuse it.
  std::string meddle(const std::string& sql) {
    sqlite::Database db(directory + "/data/mainspring.db", sqlite::Database::Mode::read_write, "");
    try {
      db.execute(sql.c_str());
    } catch (const sqlite::DiskError& error) {
      return error.detail;
    }
    return "";
  }
  void tamper(const std::string& sql) { REQUIRE(meddle(kDropTriggers + sql) == ""); }
  std::vector<std::string> problems() const {
    const auto report = store->verify();
    REQUIRE(report);
    return report->problems;
  }
  bool named(const std::string& what) const {
    const auto all = problems();
    for (const std::string& problem : all) {
      if (problem.find(what) != std::string::npos) return true;
    }
    for (const std::string& problem : all) MESSAGE(problem);
    return false;
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  std::unique_ptr<Store> store;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "the database itself refuses to change the records") {
  CHECK(meddle("UPDATE audit SET who = 'mallory' WHERE seq = 3").find("never changed") !=
        std::string::npos);
  CHECK(meddle("DELETE FROM audit WHERE seq = 3").find("only the oldest") != std::string::npos);
  CHECK(meddle("DELETE FROM audit WHERE seq = 1").find("only the oldest") != std::string::npos);
  CHECK(meddle("DELETE FROM audit") != "");
  CHECK(meddle("INSERT OR REPLACE INTO audit SELECT seq, at, 'mallory', origin, action, object, "
               "before, after, hash FROM audit WHERE seq = 3")
            .find("only appended") != std::string::npos);
  CHECK(meddle("UPDATE audit_marks SET seq = 2 WHERE id = 1").find("only advance") !=
        std::string::npos);
  CHECK(meddle("DELETE FROM audit_marks") != "");
  CHECK(problems().empty());
}

TEST_CASE("an altered record is named, whichever field was altered") {
  for (const char* change :
       {"who = 'mallory'", "at = at + 1", "origin = ''", "action = 'resume_queue'",
        "object = 'queue/other'", "before = NULL", "after = '{}'", "hash = zeroblob(32)"}) {
    Fixture other;
    other.tamper(fmt::format("UPDATE audit SET {} WHERE seq = 3", change));
    CHECK_MESSAGE(other.named("audit record 3"), change);
    other.open();
    CHECK_MESSAGE(other.named("audit record 3"), change);
  }
}

TEST_CASE_FIXTURE(Fixture, "removed records are named, wherever they were") {
  tamper("DELETE FROM audit WHERE seq = 3");
  CHECK(named("audit record 4 follows 2"));
  Fixture first;
  first.tamper("DELETE FROM audit WHERE seq = 1");
  CHECK(first.named("audit record 2 follows 0"));
  Fixture last;
  last.tamper("DELETE FROM audit WHERE seq >= 5");
  CHECK(last.named("audit records 5 to 6 are missing"));
  last.open();  // later records do not hide it
  last.pause(true);
  CHECK(last.named("audit record 7 follows 4"));
}

TEST_CASE_FIXTURE(Fixture, "an inserted record is named, and the store continues after it") {
  tamper(
      "INSERT INTO audit SELECT 7, at, who, origin, action, object, before, after, hash FROM "
      "audit WHERE seq = 6");
  CHECK(named("audit record 7"));
  open();
  CHECK(named("audit record 7"));
  pause(true);
  CHECK(store->audit_state().head.seq == 8);
  CHECK(named("audit record 7"));
}

TEST_CASE_FIXTURE(Fixture, "a rewritten end of the chain is found while the store is open") {
  // Removes the newest record and moves the mark as if the record had never existed.
  tamper(
      "DELETE FROM audit WHERE seq = 6; UPDATE audit_marks SET seq = 5, hash = (SELECT hash "
      "FROM audit WHERE seq = 5) WHERE id = 1");
  CHECK(named("audit record 6"));
}

TEST_CASE_FIXTURE(Fixture, "pruned records do not come back") {
  clock.advance(std::chrono::hours(1));
  REQUIRE(store->apply(std::vector<Operation>{PruneJobs{}}, clock.now()));
  CHECK(store->audit_state().base.seq == kRecords);
  CHECK(problems().empty());
  pause(true);
  tamper(
      "INSERT INTO audit SELECT 2, at, who, origin, action, object, before, after, hash FROM "
      "audit WHERE seq = 7");
  CHECK(named("audit record 2"));
}

TEST_CASE_FIXTURE(Fixture, "a backup has the tokens and the records, and its chain continues") {
  CreateToken create;
  create.token.name = "ci";
  create.token.digest = sha256("text");
  create.token.scopes = *Scopes::parse("read work=a");
  REQUIRE(store->apply(std::vector<Operation>{create}, clock.now()));
  REQUIRE(store->backup(directory + "/copy"));
  const AuditState state = store->audit_state();
  const Tokens tokens = *store->tokens();
  store.reset();
  std::filesystem::remove_all(directory + "/data");
  std::filesystem::rename(directory + "/copy", directory + "/data");
  open();
  CHECK(store->audit_state().head == state.head);
  CHECK(*store->tokens() == tokens);
  CHECK(problems().empty());
  pause(true);
  CHECK(store->audit_state().head.seq == state.head.seq + 1);
  CHECK(problems().empty());
}
