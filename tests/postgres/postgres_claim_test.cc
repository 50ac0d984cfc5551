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

TEST_CASE("a claim for a kind that another node made finds it, also beside one known before") {
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

}  // namespace
}  // namespace mainspring
