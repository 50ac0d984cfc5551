// The conformance suite over the SQLite store, on real files; and the damage that its verify()
// finds.
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "conformance/bench.h"
#include "disk_sqlite/sqlite_store.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// A directory that is removed with its last user.
class TempDirectory {
 public:
  TempDirectory() {
    static std::atomic<int> count{0};
    path_ = fs::temp_directory_path() / fmt::format("ms_conformance.{}.{}", getpid(), ++count);
    fs::remove_all(path_);
  }
  ~TempDirectory() { fs::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  std::string string() const { return path_.string(); }

 private:
  fs::path path_;
};

std::unique_ptr<Store> open_at(const std::string& directory, const StoreOptions& options, Now now) {
  static NullLog log;
  SqliteOptions o{.directory = directory, .store = options};
  o.reserve_bytes = 1 << 20;
  o.kept_sessions = 2;  // so that they come and go
  o.packed_workflows = std::getenv("MAINSPRING_TEST_UNPACKED") == nullptr;
  auto store = open_sqlite_store(o, now, log);
  if (!store) FAIL("open: " << store.error().message);
  return std::move(*store);
}

}  // namespace

StoreFactory store_under_test() {
  auto directory = std::make_shared<std::unique_ptr<TempDirectory>>();
  return [directory](OpenAs how, const StoreOptions& options, Now now) {
    if (how == OpenAs::fresh) *directory = std::make_unique<TempDirectory>();
    return open_at((*directory)->string(), options, now);
  };
}

namespace conformance {
namespace {

// Session 1: a job that is available, one that waits (9, 10), and a state. Session 2: held, its
// job (11) waits for the holder. Session 3: blocked, one waits (12 is dead, 13). Session 4: of a
// state alone.
template <class Apply>
void fill_sessions(const Apply& apply, NewJob job) {
  job.queue = "s";
  job.on_dead = OnDead::block;
  for (const char* key : {"open", "open", "held", "blocked", "blocked"}) {
    job.session = key;
    apply(Enqueue{.jobs = {job}});
  }
  const auto grant =
      std::get<SessionGrant>(apply(AcceptSession{.worker = "w", .session = {"s", "open"}}));
  apply(PutSessionState{.session = grant.session, .token = grant.token, .state = "[1]"});
  apply(ReleaseSession{.session = grant.session, .token = grant.token});
  apply(AcceptSession{.worker = "w", .session = {"s", "held"}});
  const auto next =
      std::get<SessionGrant>(apply(AcceptSession{.worker = "w", .session = {"s", "blocked"}}));
  const auto claimed = std::get<ClaimResult>(apply(Claim{.worker = "w",
                                                         .queues = {session_queue(next.session)},
                                                         .kinds = {},
                                                         .session_token = next.token}));
  Finish f{.worker = "w", .results = {}};
  f.results.push_back({claimed.jobs.at(0).id, claimed.jobs[0].token, Dead{"r", "d"}});
  apply(f);
  apply(ReleaseSession{.session = next.session, .token = next.token});
  const auto alone =
      std::get<SessionGrant>(apply(AcceptSession{.worker = "w", .session = {"s", "alone"}}));
  apply(PutSessionState{.session = alone.session, .token = alone.token, .state = "[2]"});
  apply(ReleaseSession{.session = alone.session, .token = alone.token});
}

// A store with all kinds of data, closed.
void fill(const std::string& directory, const ManualClock& clock) {
  const auto store = open_at(directory, {}, clock.now());
  const auto apply = [&](Operation operation) {
    auto report = store->apply({&operation, 1}, clock.now());
    REQUIRE(report.has_value());
    return std::move(report->results[0]);
  };
  NewJob plain;
  plain.kind = "work";
  NewJob later = plain;
  later.delay = hours(1);
  later.expires_in = hours(2);
  NewJob keyed = plain;
  keyed.unique = Unique{.key = "k", .window = hours(3)};
  apply(Enqueue{.jobs = {plain, plain, plain, later, keyed, plain}});
  const auto claimed = std::get<ClaimResult>(
      apply(Claim{.worker = "w", .queues = {"default"}, .kinds = {}, .max = 3}));
  Finish f{.worker = "w", .results = {}};
  f.results.push_back({claimed.jobs[0].id, claimed.jobs[0].token, Complete{"[1]"}});
  f.results.push_back({claimed.jobs[1].id, claimed.jobs[1].token, Dead{"r", "d"}});
  apply(f);
  Schedule s{.name = "s", .every = minutes(1), .job = plain};
  s.job.queue = "other";
  s.overlap = Overlap::buffer_all;
  const WallTime start = clock.now().wall;
  apply(PutSchedule{.schedule = s, .next = start, .next_fire = start});
  apply(FireSchedule{.name = "s",
                     .source = TickSource::backfill,
                     .ticks = {{.nominal = start}, {.nominal = start + minutes(1)}}});
  apply(AcquireLease{.name = "l", .holder = "h"});
  apply(PutSchedule{.schedule = {.name = "old"}, .next = start, .next_fire = start});
  apply(RemoveSchedule{"old"});
  fill_sessions(apply, plain);
  apply(SetQueueLimits{.queue = "searched", .limits = {.searchable = {"order"}}});
  NewJob searched = plain;
  searched.queue = "searched";
  searched.args = R"({"order":4711})";
  apply(Enqueue{.jobs = {searched}});
  CHECK(store->verify()->problems.empty());
}

void run_sql(const std::string& directory, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open((directory + "/mainspring.db").c_str(), &db) == SQLITE_OK);
  char* message = nullptr;
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message);
  CHECK_MESSAGE(code == SQLITE_OK, sql << ": " << (message == nullptr ? "" : message));
  CHECK(sqlite3_total_changes(db) > 0);
  sqlite3_free(message);
  sqlite3_close(db);
}

TEST_SUITE("sqlite store: verify") {
  TEST_CASE("verify finds planted damage") {
    const std::vector<std::string> damages = {
        "UPDATE job_counts SET f = f + 1 WHERE id = 1",           // available counted wrong
        "UPDATE job_counts SET a = a + 1 WHERE id = 1",           // enqueued counted wrong
        "UPDATE job_counts SET a = a + 1 WHERE id > 4294967295",  // live jobs of a block
        "DELETE FROM bodies WHERE id = 1",                        // half a job
        "DELETE FROM jobs WHERE id = 6",                          // a lost job
        "DELETE FROM due",                                        // would never be moved
        "DELETE FROM finished",                                   // would never be pruned
        "DELETE FROM dead_letter",                                // would never be listed
        "UPDATE dead_letter SET at = at + 1",                     // last seen at another time
        "UPDATE dead_letter SET kind = 77",                       // in no group
        "DELETE FROM search_values",                              // would not be found
        "UPDATE search_values SET value = x'73'",                 // found by another value
        "INSERT INTO search_values VALUES (1, x'73', 1)",         // of another queue
        "UPDATE search_values SET path = 77",                     // of no path
        "UPDATE jobs SET state = 7 WHERE id = 1",                 // completed made dead
        "UPDATE jobs SET queue = 77 WHERE id = 6",                // of no queue
        "INSERT INTO grants (token, worker, claimed_at, lease, ids) "
        "VALUES (2, 'w', 0, 30000000, '[3]')",         // a second lease of a running job
        "UPDATE jobs SET priority = 12 WHERE id = 6",  // out of range
        "DELETE FROM uniques",                         // a key that no longer holds
        "UPDATE uniques SET ended = 4",                // of an existing job
        "INSERT INTO uniques (queue, key, id, until) VALUES (1, 'x', 1000, 1)",  // of none
        "UPDATE named_leases SET token = 1000",  // would be given again
        "DELETE FROM ledger WHERE seq = 2; UPDATE schedules SET fired = 0",
        "DROP INDEX ledger_fired; UPDATE ledger SET nominal = 0",      // a tick that fired twice
        "UPDATE ledger SET job = NULL",                                // fired, without a job
        "UPDATE ledger SET job = 1000",                                // of a job that never was
        "UPDATE ledger SET schedule = 77",                             // of no schedule
        "UPDATE schedules SET next_seq = 1",                           // would be given again
        "UPDATE schedules SET remaining = 0",                          // no runs, and a next one
        "UPDATE removed_schedules SET name = 's'",                     // a version given twice
        "DELETE FROM schedule_jobs WHERE job = 7",                     // a live one is missing
        "DELETE FROM schedule_jobs WHERE job = 8",                     // one that will never start
        "UPDATE schedule_jobs SET schedule = 77 WHERE job = 7",        // of no schedule
        "INSERT INTO schedule_jobs (job, schedule) VALUES (1, 1)",     // one that has ended
        "UPDATE jobs SET state = 0 WHERE id = 7",                      // all wait, none is live
        "UPDATE jobs SET flags = flags - 64 WHERE id = 9",             // of no session
        "UPDATE jobs SET state = 2 WHERE id = 10",                     // without being the head
        "UPDATE bodies SET session = 'blocked' WHERE id = 10",         // waits in another session
        "UPDATE bodies SET session = 'none' WHERE id = 10",            // of an unknown session
        "UPDATE sessions SET head = 12 WHERE id = 3",                  // a dead job as head
        "UPDATE sessions SET head = 0 WHERE id = 1",                   // no head
        "UPDATE sessions SET stop = 0 WHERE id = 3",                   // no head, either
        "UPDATE sessions SET stop = 2 WHERE id = 1",                   // parked, yet has a head
        "UPDATE sessions SET jobs = 7 WHERE id = 1",                   // counted wrong
        "UPDATE sessions SET token = 0 WHERE id = 2",                  // its job is never claimed
        "UPDATE sessions SET token = 1 WHERE id = 1",                  // open to all, and held
        "UPDATE sessions SET token = 1000 WHERE id = 2",               // would be given again
        "UPDATE sessions SET key = 'x' WHERE id = 2",                  // of another key
        "DELETE FROM sessions WHERE id = 1",                           // forgotten
        "DELETE FROM session_states WHERE session = 4",                // a state lost
        "UPDATE session_states SET state = '[10]' WHERE session = 1",  // another one
        "UPDATE job_counts SET d = 4 WHERE id = 0",                    // would be given again
        "UPDATE jobs SET flags = flags | 2 WHERE id = 2",  // dead, and counted as expired
    };
    for (const std::string& damage : damages) {
      CAPTURE(damage);
      TempDirectory directory;
      const ManualClock clock;
      fill(directory.string(), clock);
      const auto store = open_at(directory.string(), {}, clock.now());
      run_sql(directory.string(), damage);
      const auto report = store->verify();
      CHECK_FALSE((report.has_value() && report->problems.empty()));
    }
  }

  TEST_CASE("a backup while running is a whole store of that moment") {
    TempDirectory directory;
    TempDirectory copy;
    const ManualClock clock;
    fill(directory.string(), clock);
    {
      const auto store = open_at(directory.string(), {}, clock.now());
      REQUIRE(store->backup(copy.string()).has_value());
      Operation more = PauseQueue{.queue = "after", .paused = true};
      REQUIRE(store->apply({&more, 1}, clock.now()).has_value());
      CHECK(store->backup(copy.string()).error().code == ErrorCode::conflict);
    }
    const auto restored = open_at(copy.string(), {}, clock.now());
    CHECK(restored->verify()->problems.empty());
    CHECK(restored->verify()->jobs == 14);
    CHECK(restored->queues()->size() == 4);
    CHECK(restored->schedule("s")->buffered == 1);
    CHECK(restored->ledger("s", 9, 0)->rows.size() == 2);
    CHECK(restored->lease("l", clock.now().instant)->holder == "h");
    CHECK(restored->get(1)->result == "[1]");
    CHECK(restored->session({"s", "open"}, clock.now().instant)->state == "[1]");
    CHECK(restored->session({"s", "held"}, clock.now().instant)->worker == "w");
    CHECK(restored->session({"s", "blocked"}, clock.now().instant)->stopped_by == 12);
  }
}

}  // namespace
}  // namespace conformance
}  // namespace mainspring
