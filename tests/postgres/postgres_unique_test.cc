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

TEST_CASE("an application's open transaction refuses only the callers of its key") {
  Place place;
  const NewJob plain{.queue = "q", .kind = "k"};
  NewJob of_key = plain, of_other = plain;
  of_key.unique = Unique{.key = "index", .window = {}};
  of_other.unique = Unique{.key = "other", .window = {}};
  place.enqueue(plain);
  PgConnection application = Place::connect();
  must(application.sql("BEGIN"));
  must(application.sql(place.named("SELECT ms.enqueue('q', 'k', unique_key => 'index')")));
  const std::vector<Operation> batch = {Enqueue{.jobs = {plain, of_key}},
                                        Enqueue{.jobs = {of_other}},
                                        Claim{.worker = "w", .queues = {"q"}, .max = 1}};
  const auto results = must(place.store->apply(batch, place.clock.now())).results;
  const auto* refused = std::get_if<Error>(&results.at(0));
  REQUIRE(refused != nullptr);
  CHECK(refused->code == ErrorCode::unavailable);
  CHECK(refused->message ==
        "unique key \"index\": an open transaction of an application has it; retry");
  CHECK(std::holds_alternative<EnqueueResult>(results.at(1)));
  CHECK(std::get<ClaimResult>(results.at(2)).jobs.size() == 1);
  must(application.sql("COMMIT"));
  CHECK(place.apply<EnqueueResult>(Enqueue{.jobs = {of_key}}).jobs.at(0).duplicate);
  place.check_invariants();
}

// Waiting would fail by the statement timeout: a statement that waits ends with it.
TEST_CASE("an application's open transaction refuses only the callers of its new queue or kind") {
  Place place;
  PostgresOptions patient = place.options;
  patient.lock_wait = std::chrono::hours(1);
  patient.statement_timeout = std::chrono::seconds(5);
  patient.incarnation = "patient";
  const auto node = must(open_postgres_store(patient, place.clock.now(), place.log));
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  must(node->refresh(place.clock.now()));
  PgConnection application = Place::connect();
  must(application.sql("BEGIN"));
  must(application.sql(place.named("SELECT ms.enqueue('new', 'made')")));
  const auto refused = [&](const std::vector<Operation>& batch, std::string_view what) {
    CAPTURE(what);
    const auto answer = node->apply(batch, place.clock.now());
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::unavailable);
    CHECK(answer.error().message.find(what) != std::string::npos);
    CHECK(node->blocked());  // so the broker applies the operations one by one
  };
  const Operation of_queue = Enqueue{.jobs = {{.queue = "new", .kind = "k"}}};
  const Operation of_kind = Enqueue{.jobs = {{.queue = "q", .kind = "made"}}};
  const Operation unrelated = Enqueue{.jobs = {{.queue = "own", .kind = "own"}}};
  refused({unrelated, of_queue}, "queue \"new\": an open transaction of an application creates it");
  refused({unrelated, of_kind}, "kind \"made\": an open transaction of an application creates it");
  refused({of_kind}, "kind \"made\"");
  refused({PauseQueue{.queue = "new", .paused = true}}, "queue \"new\"");
  CHECK(node->apply({&unrelated, 1}, place.clock.now()));
  must(application.sql("COMMIT"));
  for (const Operation& late : {of_queue, of_kind})
    CHECK(node->apply({&late, 1}, place.clock.now()));
  place.check_invariants();
}

TEST_CASE("an application's open transaction in a session stops no claim of other jobs") {
  Place place;
  PostgresOptions hasty = place.options;
  hasty.lock_wait = std::chrono::milliseconds(1);
  hasty.incarnation = "hasty";
  const auto node = must(open_postgres_store(hasty, place.clock.now(), place.log));
  place.enqueue(NewJob{.queue = "q", .kind = "k", .session = "s"});
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  PgConnection application = Place::connect();
  must(application.sql("BEGIN"));
  must(application.sql(place.named("SELECT ms.enqueue('q', 'k', session => 's')")));
  node->heard({.queues = {"q"}, .everything = true});
  must(node->refresh(place.clock.now()));
  const Operation one = Claim{.worker = "w", .queues = {"q"}, .max = 10};
  const auto claimed = node->apply({&one, 1}, place.clock.now());
  REQUIRE(claimed);
  CHECK(std::get<ClaimResult>(claimed->results.at(0)).jobs.size() >= 1);
  must(application.sql("COMMIT"));
}

TEST_CASE("a batch that waits for another client's lock names it, and changes nothing") {
  Place place;
  PostgresOptions hasty = place.options;
  hasty.lock_wait = std::chrono::milliseconds(1);
  hasty.incarnation = "hasty";
  const auto node = must(open_postgres_store(hasty, place.clock.now(), place.log));
  PgConnection application = Place::connect();
  must(application.sql("BEGIN"));
  must(application.sql(place.named("SELECT ms.enqueue('new', 'k')")));
  const Operation into_new = Enqueue{.jobs = {{.queue = "new", .kind = "k"}}};
  const std::vector<Operation> batch = {Enqueue{.jobs = {{.queue = "q", .kind = "j"}}}, into_new};
  const auto refused = node->apply(batch, place.clock.now());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(node->blocked());
  CHECK(place.sql("SELECT count(*) FROM ms.jobs").at(0).at(0) == "0");
  CHECK(node->apply({batch.data(), 1}, place.clock.now()));
  CHECK_FALSE(node->blocked());
  must(application.sql("ROLLBACK"));
  CHECK(node->apply({&into_new, 1}, place.clock.now()));
  place.check_invariants();
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
