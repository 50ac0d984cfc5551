// Sessions at scale over the SQLite store: with a hundred times as many sessions, or as long a line
// in one of them, an operation costs what it cost before, by what SQLite counts.
//
// MS_SESSION_SCALE sets how many sessions and jobs there are in the end (20,000).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "env/clock.h"
#include "store_sqlite/sqlite_store.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;
using std::chrono::minutes;

constexpr int kBatch = 1000;
constexpr int kAtOnce = 100;

std::int64_t scale() {
  const char* value = std::getenv("MS_SESSION_SCALE");
  return value == nullptr ? 20'000 : std::strtoll(value, nullptr, 10);
}

// -- what SQLite did ------------------------------------------------------------------------------

struct Counted {
  std::int64_t statements = 0;
  std::int64_t steps = 0;    // of SQLite's virtual machine
  std::int64_t scanned = 0;  // rows that a scan of a whole table went through
};

// Of every connection of this process, each statement when it has ended.
class Meter {
 public:
  Meter() { sqlite3_auto_extension(reinterpret_cast<void (*)()>(&Meter::opened)); }
  ~Meter() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&Meter::opened)); }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  Counted during(const std::function<void()>& work) {
    statements_ = steps_ = scanned_ = 0;
    work();
    return {statements_, steps_, scanned_};
  }

 private:
  static int opened(sqlite3* db, char**, const sqlite3_api_routines*) {
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, &Meter::ended, nullptr);
  }
  static int ended(unsigned, void*, void* statement, void*) {
    auto* of = static_cast<sqlite3_stmt*>(statement);
    ++statements_;
    steps_ += sqlite3_stmt_status(of, SQLITE_STMTSTATUS_VM_STEP, 1);
    scanned_ += sqlite3_stmt_status(of, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1);
    return 0;
  }
  static inline std::atomic<std::int64_t> statements_{0}, steps_{0}, scanned_{0};
};

// -- the store ------------------------------------------------------------------------------------

class Place {
 public:
  explicit Place(const char* name)
      : path_(fs::temp_directory_path() / fmt::format("ms_{}.{}", name, getpid())) {
    fs::remove_all(path_);
    open();
  }
  ~Place() {
    store_.reset();
    fs::remove_all(path_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  void open() {
    store_.reset();
    SqliteOptions options{.directory = path_.string()};
    options.reserve_bytes = 1 << 20;
    auto opened = open_sqlite_store(options, clock_.now(), log_);
    if (!opened) FAIL(opened.error().message);
    store_ = std::move(*opened);
  }
  template <class T>
  T one(Operation operation) {
    const auto report = store_->apply({&operation, 1}, clock_.now());
    REQUIRE(report.has_value());
    REQUIRE(std::holds_alternative<T>(report->results[0]));
    return std::get<T>(report->results[0]);
  }
  // Jobs from the first to the one before the last, each in the session that `key` says.
  void enqueue(std::int64_t first, std::int64_t last,
               const std::function<std::string(std::int64_t)>& key) {
    for (std::int64_t i = first; i < last;) {
      Enqueue e;
      for (int n = 0; n < kBatch && i < last; ++n, ++i) {
        NewJob& job = e.jobs.emplace_back(NewJob{.queue = "q", .kind = "k"});
        job.session = key(i);
      }
      one<EnqueueResult>(std::move(e));
    }
  }
  std::vector<ClaimedJob> claim(int max, std::string line = "q", Token token = 0) {
    return one<ClaimResult>(Claim{.worker = "w",
                                  .queues = {std::move(line)},
                                  .kinds = {},
                                  .max = max,
                                  .session_token = token})
        .jobs;
  }
  void complete(const std::vector<ClaimedJob>& jobs) {
    Finish finish{.worker = "w", .results = {}};
    for (const ClaimedJob& job : jobs)
      finish.results.push_back({job.id, job.token, Complete{}, R"({"n":1})"});
    for (const FinishStatus status : one<FinishResult>(std::move(finish)).results)
      REQUIRE(status == FinishStatus::ok);
  }
  const Store& store() const { return *store_; }
  Now now() const { return clock_.now(); }

 private:
  const fs::path path_;
  ManualClock clock_;
  NullLog log_;
  std::unique_ptr<Store> store_;
};

// What must not grow, by name.
using Costs = std::vector<std::pair<std::string, Counted>>;

void check_bounded(const Costs& few, const Costs& many) {
  // A tree of a hundred times as many rows is a page or two deeper, and no more.
  constexpr std::int64_t kSlack = 200;
  REQUIRE(few.size() == many.size());
  for (std::size_t i = 0; i < few.size(); ++i) {
    const auto& [name, a] = few[i];
    const auto& [same, b] = many[i];
    MESSAGE(fmt::format("{}: {} statements, {} steps, then {}, {}", name, a.statements, a.steps,
                        b.statements, b.steps));
    CHECK_MESSAGE(b.steps <= a.steps + a.steps / 4 + kSlack, name << " grows with what there is");
    CHECK_MESSAGE(b.scanned <= a.scanned + kSlack, name << " scans a table");
  }
}

TEST_CASE("ORD: a claim costs the same among many sessions of one job each as among few") {
  Meter meter;
  Place p("many_sessions");
  const auto key = [](std::int64_t i) { return fmt::format("session {}", i); };
  const auto costs = [&] {
    Costs all;
    std::vector<ClaimedJob> jobs;
    all.emplace_back("claim", meter.during([&] { jobs = p.claim(kAtOnce); }));
    REQUIRE(jobs.size() == kAtOnce);
    all.emplace_back("finish", meter.during([&] { p.complete(jobs); }));
    std::optional<SessionGrant> grant;
    all.emplace_back("accept the next", meter.during([&] {
      grant = p.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_line("q")}, .kinds = {}})
                  .session;
    }));
    REQUIRE(grant.has_value());
    all.emplace_back("release", meter.during([&] {
      p.one<Done>(ReleaseSession{.session = grant->session, .token = grant->token});
    }));
    const SessionKey last{"q", "session 77"};
    all.emplace_back("read", meter.during([&] { (void)p.store().session(last, p.now().instant); }));
    all.emplace_back(
        "list", meter.during([&] { (void)p.store().sessions("q", last, 100, p.now().instant); }));
    all.emplace_back("rescue", meter.during([&] { p.one<StepResult>(RescueExpired{}); }));
    all.emplace_back("prune", meter.during([&] { p.one<StepResult>(PruneJobs{}); }));
    return all;
  };
  const std::int64_t few = 1'000;
  p.enqueue(0, few, key);
  p.complete(p.claim(kAtOnce));  // what is prepared once, is
  const Costs small = costs();
  p.enqueue(few, scale(), key);
  check_bounded(small, costs());
}

TEST_CASE("ORD: a claim costs the same in a session of many jobs as in one of few") {
  Meter meter;
  Place p("long_session");
  const auto key = [](std::int64_t) { return std::string("the one"); };
  const auto costs = [&] {
    Costs all;
    std::vector<ClaimedJob> jobs;
    all.emplace_back("claim", meter.during([&] { jobs = p.claim(kAtOnce); }));
    REQUIRE(jobs.size() == 1);
    all.emplace_back("finish", meter.during([&] { p.complete(jobs); }));
    all.emplace_back("enqueue", meter.during([&] { p.enqueue(0, 1, key); }));
    SessionGrant grant;
    const SessionKey session{"q", "the one"};
    all.emplace_back("accept", meter.during([&] {
      grant = p.one<SessionGrant>(AcceptSession{.worker = "w", .session = session});
    }));
    all.emplace_back("claim of its line",
                     meter.during([&] { jobs = p.claim(1, session_line(session), grant.token); }));
    REQUIRE(jobs.size() == 1);
    p.complete(jobs);
    const JobId waiting = jobs[0].id + 100;
    all.emplace_back("cancel", meter.during([&] { p.one<CancelResult>(Cancel{waiting}); }));
    all.emplace_back("release", meter.during([&] {
      p.one<Done>(ReleaseSession{.session = session, .token = grant.token});
    }));
    all.emplace_back("read",
                     meter.during([&] { (void)p.store().session(session, p.now().instant); }));
    return all;
  };
  const std::int64_t few = 1'000;
  p.enqueue(0, few, key);
  p.complete(p.claim(1));
  const Costs small = costs();
  p.enqueue(few, scale(), key);
  check_bounded(small, costs());
  const Counted opening = meter.during([&] { p.open(); });
  MESSAGE(fmt::format("opening: {} steps", opening.steps));
  CHECK(p.claim(kAtOnce).size() == 1);
}

}  // namespace
}  // namespace mainspring
