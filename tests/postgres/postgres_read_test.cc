// Reads of the PostgreSQL store: their connections, and pages of many jobs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>

#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::must;
using pg_testing::the_cluster;

NullLog no_log;
constexpr const char* kReaders =
    "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
    "application_name LIKE 'mainspring%read%'";

class Place {
 public:
  explicit Place(PostgresOptions options = pg_testing::new_place())
      : options_(std::move(options)), store(must(open_postgres_store(options_, now(), no_log))) {}
  Now now() const { return clock_.now(); }
  JobId enqueue(int count, const std::string& kind, const std::string& queue = "q") {
    Enqueue e;
    NewJob job;
    job.queue = queue;
    job.kind = kind;
    e.jobs.assign(static_cast<std::size_t>(count), job);
    Operation operation = std::move(e);
    const auto report = must(store->apply({&operation, 1}, now()));
    return std::get<EnqueueResult>(report.results[0]).jobs.at(0).id;
  }
  std::vector<ClaimedJob> claim(const std::string& queue) {
    Operation operation = Claim{.worker = "w", .queues = {queue}, .kinds = {}, .max = 1};
    const auto report = must(store->apply({&operation, 1}, now()));
    return std::get<ClaimResult>(report.results[0]).jobs;
  }

 private:
  ManualClock clock_;
  PostgresOptions options_;

 public:
  std::unique_ptr<SharedStore> store;
};

int readers() {
  const auto rows = must(
      the_cluster().sql(fmt::format("SELECT count(*) {}", kReaders), pg_testing::the_database()));
  return std::stoi(rows.at(0).at(0));
}

TEST_CASE("a read whose connection was cut is made again on a new one") {
  Place place;
  const JobId id = place.enqueue(1, "k");
  for (int i = 0; i < 3; ++i) {
    CHECK(must(place.store->get(id)).kind == "k");
    CHECK(readers() == 1);
    must(the_cluster().sql(fmt::format("SELECT pg_terminate_backend(pid, 10000) {}", kReaders),
                           pg_testing::the_database()));
  }
  CHECK(place.store->list({}, 10, 0)->jobs.size() == 1);
  CHECK(place.store->queues()->size() == 1);
}

TEST_CASE("more readers than connections wait, and few connections are kept") {
  PostgresOptions options = pg_testing::new_place();
  options.readers = 2;
  Place place(options);
  const JobId id = place.enqueue(1, "k");
  constexpr int kThreads = 24, kReads = 25;
  std::atomic<int> answered{0};
  auto holder = must(
      pg_testing::PgConnection::open(the_cluster().url(pg_testing::the_database(), "postgres")));
  must(holder.sql("BEGIN; LOCK TABLE " + options.schema + ".jobs"));  // reads wait for it
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kReads; ++n) answered += place.store->get(id).has_value() ? 1 : 0;
      });
    }
    const SystemClock clock;
    const Instant limit = clock.now().instant + std::chrono::minutes(1);
    int most = 0;
    while (most == 0 && clock.now().instant < limit) most = readers();
    for (int i = 0; i < 30; ++i) most = std::max(most, readers());
    CHECK(most > 0);
    CHECK(most <= 2 * options.readers);
    must(holder.sql("COMMIT"));
  }
  CHECK(answered == kThreads * kReads);
  constexpr int kLooks = 2000;
  int left = readers();
  for (int i = 0; i < kLooks && left > options.readers; ++i) left = readers();
  CHECK(left <= options.readers);
}

TEST_CASE("while the server is down reads are refused as unavailable; then they work again") {
  Place place;
  const JobId id = place.enqueue(1, "k");
  REQUIRE(place.store->get(id).has_value());
  must(the_cluster().stop(pg_testing::PgCluster::Stop::fast));
  const auto refused = place.store->get(id);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().retry_after_ms > 0);
  CHECK(place.store->audit_state().records == 0);  // the last known value
  must(the_cluster().start());
  CHECK(must(place.store->get(id)).kind == "k");
}

TEST_CASE("a page reads a bounded number of jobs and returns where to continue") {
  Place place;
  const JobId rare = place.enqueue(1, "rare", "small");
  const JobId runs = place.enqueue(1, "k", "running");
  REQUIRE(place.claim("running").size() == 1);
  constexpr int kMany = 10'000;
  for (int i = 0; i < 5; ++i) place.enqueue(kMany, "k");
  std::vector<JobId> found;
  JobId before = 0;
  int pages = 0;
  for (; pages < 10; ++pages) {
    const JobPage page = must(place.store->list({.kind = "rare"}, 10, before));
    for (const Job& job : page.jobs) found.push_back(job.id);
    if (!page.next) break;
    CHECK((before == 0 || *page.next < before));
    before = *page.next;
  }
  CHECK(found == std::vector<JobId>{rare});
  CHECK(pages == 5);
  // States with their own table are found at once, among any number of other jobs.
  const JobPage running = must(place.store->list({.state = JobState::running}, 10, 0));
  REQUIRE(running.jobs.size() == 1);
  CHECK(running.jobs[0].id == runs);
  CHECK_FALSE(running.next.has_value());
  const JobPage available =
      must(place.store->list({.queue = "small", .state = JobState::available}, 10, 0));
  REQUIRE(available.jobs.size() == 1);
  CHECK(available.jobs[0].id == rare);
  // A ready queue too long to sort is read in windows, and still complete.
  std::int64_t seen = 0;
  before = 0;
  for (int i = 0; i < 20; ++i) {
    const JobPage page =
        must(place.store->list({.queue = "q", .state = JobState::available}, 9999, before));
    seen += static_cast<std::int64_t>(page.jobs.size());
    if (!page.next) break;
    before = *page.next;
  }
  CHECK(seen == 5 * kMany);
}

TEST_CASE("an id that was assigned and is gone has expired, any other id is not found") {
  Place place;
  const JobId id = place.enqueue(1, "k");
  CHECK(place.store->get(id + 1).error().code == ErrorCode::not_found);
  CHECK(place.store->get(0).error().code == ErrorCode::not_found);
  CHECK(place.store->get(-1).error().code == ErrorCode::not_found);
}

TEST_CASE("what another node reports is as old as the last heartbeat of that node") {
  const PostgresOptions options = pg_testing::new_place();
  Place place(options);
  must(the_cluster().sql(
      fmt::format("INSERT INTO {0}.nodes (id, incarnation, address, program, started_at, seen_at) "
                  "VALUES (99, 'x', '', 'v', 0, {0}.now_us() - 3000000)",
                  options.schema),
      pg_testing::the_database()));
  const auto said = must(place.store->others_say());
  REQUIRE(said.size() == 1);
  CHECK(said[0].ago >= std::chrono::seconds(3));
  CHECK(said[0].ago < std::chrono::seconds(60));
}

}  // namespace
}  // namespace mainspring
