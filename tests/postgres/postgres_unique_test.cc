// A unique key whose row is deleted while another transaction waits for it: the key of a pruned job
// whose window is over.
#include <future>

#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

// A store with a key whose job has been pruned, and a transaction that holds the key's row.
struct PrunedKey : Place {
  PrunedKey() {
    job.unique = Unique{.key = "k", .window = std::chrono::hours(50)};
    first = enqueue(job);
    apply<CancelResult>(Cancel{.id = first, .reason = ""});
    clock.advance(std::chrono::hours(25));
    REQUIRE(apply<StepResult>(PruneJobs{}).changed == 1);
    const EnqueuedJob again = apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0);
    REQUIRE(again.duplicate);
    REQUIRE(again.id == first);
    must(pruner.sql("BEGIN"));
    must(pruner.sql(named("SELECT 1 FROM ms.uniques WHERE key = 'k' FOR UPDATE")));
  }
  void let_key_go() {
    await_waiting_for_a_lock();
    must(pruner.sql(named("DELETE FROM ms.uniques WHERE key = 'k'")));
    must(pruner.sql("COMMIT"));
  }
  NewJob job{.queue = "q", .kind = "k"};
  JobId first = 0;
  PgConnection pruner = connect();
};

}  // namespace

TEST_CASE_FIXTURE(PrunedKey, "an enqueue that waits for a key which is pruned meanwhile gets it") {
  const auto node = open();
  auto made = std::async(std::launch::async, [&] {
    return pg_testing::apply<EnqueueResult>(*node, Enqueue{.jobs = {job}}, clock).jobs.at(0);
  });
  let_key_go();
  const EnqueuedJob got = made.get();
  CHECK_FALSE(got.duplicate);
  CHECK(got.id != first);
  CHECK(apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0).id == got.id);
  check_invariants();
}

TEST_CASE_FIXTURE(PrunedKey, "enqueue() that waits for a key which is pruned meanwhile gets it") {
  PgConnection application = connect();
  must(application.sql("SET application_name = 'mainspring application'"));
  auto made = std::async(std::launch::async, [&] {
    return std::stoll(must(application.sql(named("SELECT ms.enqueue('q', 'k', unique_key => 'k', "
                                                 "unique_for => '50 hours')")))
                          .at(0)
                          .at(0));
  });
  let_key_go();
  const JobId got = made.get();
  CHECK(got != first);
  CHECK(apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0).id == got);
  check_invariants();
}

}  // namespace mainspring::pg_testing
