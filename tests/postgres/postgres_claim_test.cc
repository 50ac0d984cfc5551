// Claims of nodes that share a store.
#include <doctest/doctest.h>

#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::must;

NullLog no_log;

std::unique_ptr<SharedStore> node(const PostgresOptions& options, const Clock& clock) {
  return must(open_postgres_store(options, clock.now(), no_log));
}

OperationResult one(Store& store, Operation operation, const Clock& clock) {
  return std::move(must(store.apply({&operation, 1}, clock.now())).results[0]);
}

void enqueue(Store& store, const std::string& kind, const Clock& clock) {
  NewJob job;
  job.queue = "q";
  job.kind = kind;
  one(store, Enqueue{.jobs = {job}}, clock);
}

TEST_CASE("a claim finds a kind that another node created, also along with a known kind") {
  const ManualClock clock;
  const PostgresOptions options = pg_testing::new_place();
  const auto a = node(options, clock);
  enqueue(*a, "known", clock);
  const auto b = node(options, clock);
  enqueue(*b, "new", clock);
  const auto claimed = std::get<ClaimResult>(
      one(*a, Claim{.worker = "w", .queues = {"q"}, .kinds = {"known", "new"}, .max = 10}, clock));
  CHECK(claimed.jobs.size() == 2);
}

ClaimResult claim(Store& store, int max, const Clock& clock) {
  return std::get<ClaimResult>(one(
      store, Claim{.worker = "w", .queues = {"q"}, .max = max, .lease = std::chrono::seconds(30)},
      clock));
}

void finish(Store& store, const ClaimedJob& job, const Clock& clock) {
  one(store,
      Finish{.worker = "w", .results = {{.id = job.id, .token = job.token, .outcome = Complete{}}}},
      clock);
}

std::string rows_in_leased(const PostgresOptions& options) {
  auto connection = must(pg_testing::PgConnection::open(std::string(options.url.reveal())));
  const auto rows = must(connection.sql("SELECT count(*) FROM " + options.schema +
                                        ".leased WHERE cardinality(ids) > 0"));
  return rows[0][0];
}

TEST_CASE("claims whose jobs have all ended need no further check") {
  const ManualClock clock;
  const PostgresOptions options = pg_testing::new_place();
  const auto store = node(options, clock);
  for (int i = 0; i < 40; ++i) enqueue(*store, "k", clock);
  for (int i = 0; i < 19; ++i) {
    for (const ClaimedJob& job : claim(*store, 2, clock).jobs) finish(*store, job, clock);
  }
  CHECK(claim(*store, 2, clock).jobs.size() == 2);
  CHECK(rows_in_leased(options) == "1");
}

TEST_CASE("the remaining job of a claim is rescued although its other jobs have ended") {
  ManualClock clock;
  const PostgresOptions options = pg_testing::new_place();
  const auto store = node(options, clock);
  for (int i = 0; i < 10; ++i) enqueue(*store, "k", clock);
  const ClaimResult left = claim(*store, 2, clock);
  REQUIRE(left.jobs.size() == 2);
  finish(*store, left.jobs[0], clock);
  for (int i = 0; i < 8; ++i) {
    for (const ClaimedJob& job : claim(*store, 1, clock).jobs) finish(*store, job, clock);
  }
  clock.advance(std::chrono::seconds(31));
  const auto rescued =
      std::get<StepResult>(one(*store, RescueExpired{.limit = 10, .fence = {}}, clock));
  CHECK(rescued.changed == 1);
  CHECK(must(store->verify()).problems.empty());
}

}  // namespace
}  // namespace mainspring
