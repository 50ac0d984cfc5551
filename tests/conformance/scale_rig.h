// Shared by scale tests over the SQLite store: a store, and the counters of SQLite.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"

namespace mainspring::scale_testing {

// -- counters of SQLite ---------------------------------------------------------------------------

struct Counted {
  std::int64_t statements = 0;
  std::int64_t steps = 0;    // of SQLite's virtual machine
  std::int64_t scanned = 0;  // rows read by full table scans
};

// For every connection of this process, each statement when it has ended.
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
      : path_(std::filesystem::temp_directory_path() / fmt::format("ms_{}.{}", name, getpid())) {
    std::filesystem::remove_all(path_);
    open();
  }
  ~Place() {
    store_.reset();
    std::filesystem::remove_all(path_);
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
      for (int n = 0; n < 1000 && i < last; ++n, ++i) {
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
  const std::filesystem::path path_;
  ManualClock clock_;
  NullLog log_;
  std::unique_ptr<Store> store_;
};

// The costs that must not grow, by name.
using Costs = std::vector<std::pair<std::string, Counted>>;

inline void check_bounded(const Costs& few, const Costs& many) {
  // A tree with a hundred times the rows is one or two pages deeper.
  constexpr std::int64_t kSlack = 200;
  REQUIRE(few.size() == many.size());
  for (std::size_t i = 0; i < few.size(); ++i) {
    const auto& name = few[i].first;  // clang 14 cannot capture structured bindings
    const auto& a = few[i].second;
    const auto& b = many[i].second;
    MESSAGE(fmt::format("{}: {} statements, {} steps, then {}, {}", name, a.statements, a.steps,
                        b.statements, b.steps));
    CHECK_MESSAGE(b.steps <= a.steps + a.steps / 4 + kSlack, name << " grows with the store");
    CHECK_MESSAGE(b.scanned <= a.scanned + kSlack, name << " scans a table");
  }
}

}  // namespace mainspring::scale_testing
