// Batches of only simple enqueues, claims and completions: one round trip, and the same
// promises.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "postgres/bed.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::seconds;

NewJob job_of(const std::string& queue) {
  NewJob job;
  job.queue = queue;
  job.kind = "work";
  return job;
}

JobOutcome completed(const ClaimedJob& job, std::string result = "") {
  return {.id = job.id, .token = job.token, .outcome = Complete{.result = std::move(result)}};
}

std::vector<ClaimedJob> claim(Bed& bed, int max) {
  return std::get<ClaimResult>(must(bed.apply(Claim{.worker = "w", .queues = {"q"}, .max = max})))
      .jobs;
}

std::string count(Bed& bed, const std::string& condition) {
  return must(bed.cluster->sql(fmt::format("SELECT count(*) FROM {}.jobs WHERE {}",
                                           bed.options.schema, condition),
                               bed.database))
      .at(0)
      .at(0);
}

// The three kinds at once: a completion, two new jobs, a claim.
std::vector<Operation> all_kinds(const ClaimedJob& job) {
  return {Finish{.worker = "w", .results = {completed(job, "\"done\"")}},
          Enqueue{.jobs = {job_of("q"), job_of("q")}},
          Claim{.worker = "w", .queues = {"q"}, .max = 2}};
}

TEST_CASE("a batch whose commit fails has no effect and is not acknowledged") {
  Bed bed;
  must(bed.enqueue(1));
  must(bed.enqueue(2));
  const ClaimedJob job = bed.claim();
  // Refuses when the transaction ends, after the answers to all its statements.
  const std::string& s = bed.options.schema;
  must(bed.cluster->sql(
      fmt::format("CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                  "EXCEPTION 'not today'; END $$; CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "
                  "{0}.job_counts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "
                  "{0}.refuse()",
                  s),
      bed.database));
  const auto refused = bed.store->apply(all_kinds(job), bed.clock.now());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("not today") != std::string::npos);
  CHECK(count(bed, "true") == "2");
  CHECK(count(bed, "state = 3") == "1");
  must(bed.cluster->sql(fmt::format("DROP TRIGGER refuse ON {}.job_counts", s), bed.database));
  // What it remembered of the batch is undone as well.
  CHECK(bed.complete(job) == FinishStatus::ok);
  CHECK(claim(bed, 10).size() == 1);
  bed.must_be_sound();
}

TEST_CASE("a batch of all operations whose answer was lost gets its real answers") {
  BedOptions options;
  options.statement_timeout = options.patience = seconds(20);
  Bed bed(options);
  must(bed.enqueue(1));
  const ClaimedJob job = bed.claim();
  must(bed.cluster->set("synchronous_standby_names", "nobody"));
  const std::vector<Operation> batch = all_kinds(job);
  auto call =
      std::async(std::launch::async, [&] { return bed.store->apply(batch, bed.clock.now()); });
  REQUIRE(bed.await_commit(" waiting") != 0);
  must(bed.cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
  bed.cluster->kill9();
  must(bed.cluster->start());
  REQUIRE(call.wait_for(seconds(60)) == std::future_status::ready);
  const BatchReport report = must(call.get());
  CHECK(std::get<FinishResult>(report.results[0]).results ==
        std::vector<FinishStatus>{FinishStatus::ok});
  CHECK(report.effects.ended == std::vector<JobId>{job.id});
  std::set<JobId> enqueued, claimed;
  for (const EnqueuedJob& one : std::get<EnqueueResult>(report.results[1]).jobs)
    enqueued.insert(one.id);
  CHECK(enqueued.size() == 2);
  for (const ClaimedJob& one : std::get<ClaimResult>(report.results[2]).jobs) {
    claimed.insert(one.id);
    CHECK(one.queue == "q");
    CHECK(one.attempt == 1);
    CHECK(bed.complete(one) == FinishStatus::ok);
  }
  CHECK(claimed == enqueued);
  CHECK(must(bed.store->get(job.id)).result == "\"done\"");
  bed.must_be_sound();
}

TEST_CASE("indistinguishable claims share their jobs when the answer is lost") {
  BedOptions options;
  options.statement_timeout = options.patience = seconds(20);
  Bed bed(options);
  for (int i = 0; i < 5; ++i) must(bed.enqueue(i));
  must(bed.cluster->set("synchronous_standby_names", "nobody"));
  const Claim two{.worker = "w", .queues = {"q"}, .max = 2};
  const std::vector<Operation> batch = {two, two};
  auto call =
      std::async(std::launch::async, [&] { return bed.store->apply(batch, bed.clock.now()); });
  REQUIRE(bed.await_commit(" waiting") != 0);
  must(bed.cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
  bed.cluster->kill9();
  must(bed.cluster->start());
  REQUIRE(call.wait_for(seconds(60)) == std::future_status::ready);
  const BatchReport report = must(call.get());
  std::set<JobId> all;
  for (const OperationResult& result : report.results) {
    const auto& jobs = std::get<ClaimResult>(result).jobs;
    CHECK(jobs.size() == 2);
    for (const ClaimedJob& job : jobs) all.insert(job.id);
  }
  CHECK(all.size() == 4);
  CHECK(claim(bed, 10).size() == 1);
  bed.must_be_sound();
}

TEST_CASE("completions that are not found are answered one by one, along with the others") {
  Bed bed;
  for (int i = 0; i < 4; ++i) must(bed.enqueue(i));
  const std::vector<ClaimedJob> jobs = claim(bed, 4);
  REQUIRE(jobs.size() == 4);
  // Without this node's knowledge: one job is completed with its own token, another worker has
  // claimed one, one is gone.
  const std::string& s = bed.options.schema;
  const auto other = bed.open_another();
  const std::vector<Operation> done = {Finish{.worker = "w", .results = {completed(jobs[0])}}};
  must(other->apply(done, bed.clock.now()));
  must(bed.cluster->sql(fmt::format("UPDATE {}.jobs SET token = nextval('{}.tokens_given') WHERE "
                                    "id = {}; DELETE FROM {}.jobs WHERE id = {}",
                                    s, s, jobs[1].id, s, jobs[2].id),
                        bed.database));
  const std::vector<Operation> batch = {
      Finish{.worker = "w", .results = {completed(jobs[0]), completed(jobs[1])}},
      Finish{.worker = "w", .results = {completed(jobs[2]), completed(jobs[3])}}};
  const BatchReport report = must(bed.store->apply(batch, bed.clock.now()));
  using enum FinishStatus;
  CHECK(std::get<FinishResult>(report.results[0]).results == std::vector{ok, stale});
  CHECK(std::get<FinishResult>(report.results[1]).results == std::vector{not_found, ok});
  CHECK(report.effects.ended == std::vector<JobId>{jobs[3].id});
}

TEST_CASE("a job enqueued after a claim that found nothing can be claimed next") {
  Bed bed;
  must(bed.enqueue(1));
  REQUIRE(claim(bed, 1).size() == 1);
  const std::vector<Operation> batch = {Claim{.worker = "w", .queues = {"q"}, .max = 2},
                                        Enqueue{.jobs = {job_of("q")}}};
  const BatchReport report = must(bed.store->apply(batch, bed.clock.now()));
  CHECK(std::get<ClaimResult>(report.results[0]).jobs.empty());
  CHECK(report.effects.available == std::vector<std::string>{"q"});
  CHECK(bed.store->has_available("q"));
  CHECK(claim(bed, 2).size() == 1);
}

TEST_CASE("a claim in one round trip brings the checkpoint of a job that was tried before") {
  Bed bed;
  must(bed.enqueue(1));
  const ClaimedJob job = bed.claim();
  Renew renew{.worker = "w",
              .leases = {{.id = job.id, .token = job.token, .progress = {}, .checkpoint = "[7]"}}};
  must(bed.apply(renew));
  must(bed.apply(Finish{
      .worker = "w",
      .results = {{.id = job.id, .token = job.token, .outcome = Snooze{.after = Duration(0)}}}}));
  must(bed.enqueue(2));
  const std::vector<ClaimedJob> again = claim(bed, 5);
  REQUIRE(again.size() == 2);
  for (const ClaimedJob& one : again) CHECK(one.checkpoint == (one.id == job.id ? "[7]" : ""));
}

TEST_CASE("an additional writer connection completes fast-path jobs and nothing else") {
  Bed bed;
  for (int i = 0; i < 4; ++i) must(bed.enqueue(i));
  NewJob followed = job_of("q");
  followed.reply_to = "answers";
  must(bed.apply(Enqueue{.jobs = {followed}}));
  const std::vector<ClaimedJob> jobs = claim(bed, 5);
  REQUIRE(jobs.size() == 5);
  PostgresOptions options = bed.options;
  options.joins = false;
  NullLog log;
  const auto writer = must(open_postgres_store(options, bed.clock.now(), log));
  ClaimedJob late = jobs[2];
  --late.token;
  const std::vector<Operation> batch = {
      Finish{.worker = "w", .results = {completed(jobs[0], "1"), completed(jobs[1])}},
      Finish{.worker = "w", .results = {completed(late), completed(jobs[4])}},
      Finish{.worker = "w",
             .results = {{.id = jobs[3].id, .token = jobs[3].token, .outcome = Retry{}}}}};
  const auto done = must(writer->apply(std::span(batch).first(2), bed.clock.now()));
  using enum FinishStatus;
  CHECK(std::get<FinishResult>(done.results[0]).results == std::vector{ok, ok});
  CHECK(std::get<FinishResult>(done.results[1]).results == std::vector{stale, stale});
  CHECK(done.effects.ended == std::vector<JobId>{jobs[0].id, jobs[1].id});
  const auto second = must(writer->apply(std::span(batch).last(1), bed.clock.now()));
  CHECK(std::get<FinishResult>(second.results[0]).results == std::vector{stale});
  CHECK(must(bed.store->get(jobs[0].id)).result == "1");
  CHECK(must(bed.store->get(jobs[4].id)).state == JobState::running);
  // Its owner has the current state, and forget_claims() reports the ended jobs.
  bed.store->forget_claims({{jobs[0].id, jobs[0].token}, {jobs[1].id, jobs[1].token}});
  CHECK(bed.complete(jobs[0]) == ok);
  CHECK(bed.complete(late) == stale);
  CHECK(bed.complete(jobs[4]) == ok);
  CHECK(bed.complete(jobs[2]) == ok);
  must(bed.apply(batch[2]));
  bed.must_be_sound();
}

}  // namespace
}  // namespace mainspring::pg_testing
