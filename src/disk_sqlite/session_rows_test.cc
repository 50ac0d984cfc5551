// Rows of sessions lag behind their jobs. No stale row is visible: not to readers, not to the next
// start after a kill, not to a copy.
#include "sql_store/session_rows.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "disk_sqlite/sqlite_store.h"
#include "disk_sqlite/transfer.h"
#include "env/clock.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// A store under /tmp that is removed when the test ends.
class Place {
 public:
  Place() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Place() {
    store_.reset();
    fs::remove_all(path_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  void open(std::size_t kept_sessions = 100, bool close_in_order = false) {
    store_.reset();
    auto opened = open_sqlite_store({.directory = path_,
                                     .reserve_bytes = 1 << 16,
                                     .kept_sessions = kept_sessions,
                                     .close_in_order = close_in_order},
                                    clock_.now(), log_);
    REQUIRE(opened);
    store_ = std::move(*opened);
  }
  void close() { store_.reset(); }
  bool opens() {
    return open_sqlite_store({.directory = path_, .reserve_bytes = 1 << 16}, clock_.now(), log_)
        .has_value();
  }
  Store& store() { return *store_; }
  const std::string& path() const { return path_; }

  template <class Answer, class Op>
  Answer apply(Op op) {
    std::vector<Operation> batch{std::move(op)};
    auto report = store_->apply(batch, clock_.now());
    REQUIRE(report);
    REQUIRE(std::holds_alternative<Answer>(report->results[0]));
    return std::get<Answer>(report->results[0]);
  }
  JobId put(const std::string& session) {
    NewJob job{.queue = "q", .kind = "work"};
    job.session = session;
    return apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs[0].id;
  }
  // All steps of the start, in order.
  std::vector<ClaimedJob> claim() {
    return apply<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .max = 100}).jobs;
  }
  void complete(const ClaimedJob& job) {
    apply<FinishResult>(Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}});
  }
  // Live jobs and the head of each session, in order of the keys.
  std::string sessions(int limit = 100) {
    std::string out;
    SessionKey after{"q", ""};
    for (bool more = true; more;) {
      auto page = store_->sessions("q", after, limit, clock_.now().instant);
      REQUIRE(page);
      for (const SessionInfo& s : page->sessions)
        out += s.session.key + ":" + std::to_string(s.jobs) + "@" + std::to_string(s.head) + " ";
      more = page->next.has_value();
      if (more) after = *page->next;
    }
    return out;
  }
  std::string problems() {
    auto report = store_->verify();
    REQUIRE(report);
    std::string out;
    for (const std::string& problem : report->problems) out += problem + "\n";
    return out;
  }
  // The value in the row itself; -1 = there is no row.
  std::int64_t jobs_in_row(const std::string& key) {
    sqlite::Database db(path_ + "/mainspring.db", sqlite::Database::Mode::read_only, "");
    return db.query_int(
        ("SELECT coalesce((SELECT jobs FROM sessions WHERE key = '" + key + "'), -1)").c_str());
  }

 private:
  std::string path_;
  ManualClock clock_;
  NullLog log_;
  std::unique_ptr<Store> store_;
};

// a: 1 ended, 2 is the head, 3 waits. b: empty. c: 5 is the head, and no row lags.
void fill(Place& p) {
  for (const char* key : {"a", "a", "a", "b", "c"}) p.put(key);
  for (const ClaimedJob& job : p.claim()) {
    if (job.session != "c") p.complete(job);
  }
}
const char* const kFilled = "a:2@2 c:1@5 ";

TEST_CASE("readers see which jobs live in a session, although its row lags behind") {
  Place p;
  p.open();
  fill(p);
  CHECK(p.jobs_in_row("a") == 1);  // since the first job arrived
  CHECK(p.jobs_in_row("b") == 1);
  CHECK(p.sessions() == kFilled);
  CHECK(p.sessions(1) == kFilled);
  CHECK(p.store().session({"q", "a"}, Instant())->head == 2);
  CHECK(p.store().session({"q", "b"}, Instant()).error().code == ErrorCode::not_found);
  CHECK(p.problems().empty());
}

TEST_CASE("ORD: after a kill sessions continue where their jobs are") {
  Place p;
  p.open();
  fill(p);
  for (int kills = 0; kills < 2; ++kills) {
    p.open();
    CHECK(p.sessions() == kFilled);
    CHECK(p.problems().empty());
  }
  auto next = p.claim();
  REQUIRE(next.size() == 1);
  CHECK(next[0].id == 2);
  CHECK(p.put("b") == 6);
  CHECK(p.claim().size() == 1);
  p.complete(next[0]);
  CHECK(p.claim().at(0).id == 3);
  CHECK(p.sessions() == "a:1@3 b:1@6 c:1@5 ");
}

TEST_CASE("ORD: a kill after the first batch that leaves a row lagging is survived too") {
  Place p;
  p.open(100, true);
  fill(p);
  p.open();
  const auto next = p.claim();
  REQUIRE(next.size() == 1);
  p.complete(next[0]);  // this assigns no id and no token
  p.open();
  CHECK(p.sessions() == "a:1@3 c:1@5 ");
  CHECK(p.problems().empty());
}

TEST_CASE("ORD: a failed start leaves lagging rows to the next start") {
  Place p;
  p.open();
  fill(p);
  p.close();
  const auto change = [&](const char* sql) {
    sqlite::Database db(p.path() + "/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute(sql);
  };
  change("INSERT INTO sessions VALUES (-1, 77, 'of no queue', 1, 0, 0, 0, NULL, 0, 0, 0, 0)");
  CHECK_FALSE(p.opens());
  change("DELETE FROM sessions WHERE id = -1");
  p.open();
  CHECK(p.sessions() == kFilled);
}

TEST_CASE("after a clean close the rows are up to date") {
  Place p;
  p.open(100, true);
  fill(p);
  p.close();
  CHECK(p.jobs_in_row("a") == 2);
  CHECK(p.jobs_in_row("b") == -1);
  sqlite::Database db(p.path() + "/mainspring.db", sqlite::Database::Mode::read_only, "");
  CHECK_FALSE(sql::rows_of_sessions_lag(db));
}

TEST_CASE("a session that leaves memory leaves a current row, or none") {
  Place p;
  p.open(1);
  fill(p);
  for (const char* key : {"w", "x", "y", "z"}) p.put(key);
  CHECK(p.jobs_in_row("a") == 2);
  CHECK(p.jobs_in_row("b") == -1);
  CHECK(p.sessions() == "a:2@2 c:1@5 w:1@6 x:1@7 y:1@8 z:1@9 ");
  CHECK(p.problems().empty());
}

TEST_CASE("a session that is held, stopped or has a state has a current row at once") {
  Place p;
  p.open();
  p.put("s");
  auto grant = p.apply<SessionGrant>(AcceptSession{.worker = "w", .session = {"q", "s"}});
  p.put("s");
  CHECK(p.jobs_in_row("s") == 2);
  p.apply<Done>(PutSessionState{.session = grant.session, .token = grant.token, .state = "[1]"});
  p.apply<Done>(ReleaseSession{.session = grant.session, .token = grant.token});
  p.put("s");
  CHECK(p.jobs_in_row("s") == 3);
}

TEST_CASE("a copy beside the server has the jobs of sessions with lagging rows") {
  Place p;
  p.open();
  fill(p);
  auto source = open_sqlite_source(p.path(), SourceGoesOn::yes);
  REQUIRE(source);
  for (int looks = 0; looks < 2; ++looks) {
    REQUIRE((*source)->look());
    const auto catalog = (*source)->catalog();
    REQUIRE(catalog);
    REQUIRE(catalog->sessions.size() == 2);
    REQUIRE((*source)->catalog());  // again, in the same read
    CHECK((*source)->catalog()->sessions == catalog->sessions);
    CHECK(catalog->sessions[0].jobs == 2 - looks);
    CHECK(catalog->sessions[0].head == 2 + looks);
    CHECK(catalog->sessions[1].session.key == "c");
    if (looks == 0) p.complete(p.claim().at(0));
  }
}

}  // namespace
}  // namespace mainspring
