// The cost of reads in steps of SQLite's virtual machine: the same with thousands of running
// jobs as with none.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"

namespace mainspring {
namespace {

std::atomic<std::int64_t> steps_taken{0};

int count_step(void*) {
  ++steps_taken;
  return 0;
}

// SQLite calls this for each new connection.
int count_steps_of(sqlite3* db, const char**, const sqlite3_api_routines*) {
  sqlite3_progress_handler(db, 1, &count_step, nullptr);
  return SQLITE_OK;
}

class ReadCost {
 public:
  ReadCost() {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&count_steps_of));
    char path[] = "/tmp/mainspring-read-cost-XXXXXX";
    REQUIRE(mkdtemp(path) != nullptr);
    directory_ = path;
    auto opened = open_sqlite_store(
        SqliteOptions{.directory = directory_ + "/store", .reserve_bytes = 1 << 16}, clock.now(),
        log);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  ~ReadCost() {
    sqlite3_reset_auto_extension();
    store.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  BatchReport apply(std::vector<Operation> batch) {
    auto report = store->apply(batch, clock.now());
    REQUIRE(report);
    return std::move(*report);
  }
  void enqueue(const std::string& queue, std::size_t jobs) {
    Enqueue many;
    many.jobs.assign(jobs, NewJob{.queue = queue, .kind = "k"});
    apply({many});
  }
  static std::int64_t cost(const std::function<void()>& read) {
    read();  // prepares the statements
    const std::int64_t before = steps_taken;
    read();
    return steps_taken - before;
  }

  ManualClock clock;
  NullLog log;
  std::unique_ptr<Store> store;

 private:
  std::string directory_;
};

}  // namespace

TEST_CASE("reads cost the same however many jobs run") {
  constexpr std::size_t kRunning = 3000;
  ReadCost bed;
  bed.enqueue("other", 20);  // ids 1 to 20
  bed.enqueue("busy", 200);
  bed.apply({Claim{.worker = "w", .queues = {"busy"}, .max = 100}});
  const auto list = [&](JobFilter filter) {
    return [&bed, filter] {
      const auto page = bed.store->list(filter, 10, 0);
      REQUIRE(page);
      CHECK(page->jobs.size() == 10);
    };
  };
  const std::vector<std::pair<const char*, std::function<void()>>> reads = {
      {"get an available job", [&] { REQUIRE(bed.store->get(1)); }},
      {"get a running job",
       [&] {
         const auto job = bed.store->get(21);
         REQUIRE(job);
         CHECK(job->state == JobState::running);
       }},
      {"list", list({})},
      {"list available jobs", list({.state = JobState::available})},
      {"list running jobs", list({.state = JobState::running})},
      {"list running jobs of a queue", list({.queue = "busy", .state = JobState::running})},
      {"queues", [&] { REQUIRE(bed.store->queues()); }},
  };
  std::vector<std::int64_t> before;
  for (const auto& [name, read] : reads) before.push_back(ReadCost::cost(read));
  // Each by its own claim, and older than the newest jobs.
  bed.enqueue("busy", kRunning);
  std::vector<Operation> claims(kRunning, Claim{.worker = "w", .queues = {"busy"}, .max = 1});
  bed.apply(std::move(claims));
  bed.enqueue("other", 20);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    CAPTURE(reads[i].first);
    CHECK(ReadCost::cost(reads[i].second) <= 2 * before[i] + 20);
  }
}

}  // namespace mainspring
