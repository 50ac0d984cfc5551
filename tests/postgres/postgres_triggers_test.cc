// Triggers on the ends of jobs that end on several nodes of one database.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <barrier>
#include <thread>

#include "postgres/places.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {
namespace {

constexpr int kRounds = 100;

class Node {
 public:
  explicit Node(const PostgresOptions& place)
      : store_(must(open_postgres_store(place, clock_.now(), log_))) {}

  Result<BatchReport> try_batch(const std::vector<Operation>& batch) {
    return store_->apply(batch, clock_.now());
  }
  template <class T>
  T apply(Operation operation) {
    BatchReport report = must(try_batch({std::move(operation)}));
    if (const auto* error = std::get_if<Error>(&report.results[0])) FAIL(error->message);
    return std::get<T>(std::move(report.results[0]));
  }
  JobId enqueue(const std::string& queue) {
    NewJob job;
    job.queue = queue;
    job.kind = "k";
    return apply<EnqueueResult>(
               Enqueue{.jobs = {job}, .idempotency_key = {}, .fingerprint = {}, .fence = {}})
        .jobs[0]
        .id;
  }
  std::vector<ClaimedJob> claim(const std::string& queue, int max) {
    return apply<ClaimResult>(Claim{.worker = "w",
                                    .queues = {queue},
                                    .kinds = {},
                                    .max = max,
                                    .lease = std::chrono::minutes(1)})
        .jobs;
  }
  static Finish done(const ClaimedJob& job) {
    return Finish{.worker = "w", .results = {{job.id, job.token, Complete{}, {}}}};
  }
  SharedStore& store() { return *store_; }

 private:
  SystemClock clock_;
  NullLog log_;
  std::unique_ptr<SharedStore> store_;
};

PutTrigger watch(const std::string& name, const std::string& queue, const std::string& into) {
  PutTrigger put{.trigger = {.name = name,
                             .http = {},
                             .folder = {},
                             .ended = EndedSource{.queue = queue},
                             .job = {}},
                 .secret = ""};
  put.trigger.job.queue = into;
  put.trigger.job.kind = "next";
  return put;
}

std::string value(const PostgresOptions& place, std::string text) {
  constexpr std::string_view kWord = "schema.";
  for (std::size_t at = 0; (at = text.find(kWord, at)) != std::string::npos;) {
    text.replace(at, kWord.size(), place.schema + ".");
    at += place.schema.size() + 1;
  }
  const auto rows = must(the_cluster().sql(text, the_database()));
  return rows.empty() || rows[0].empty() ? "" : rows[0][0];
}

std::int64_t fired(Node& node, const std::string& name) {
  return must(node.store().trigger(name)).fired;
}

void must_be_sound(Node& node) {
  const auto report = must(node.store().verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
}

}  // namespace

TEST_CASE("a trigger that one node defines is fired by the next completion on another") {
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  for (int i = 0; i < 2; ++i) two.enqueue("q");
  const auto jobs = two.claim("q", 2);
  REQUIRE(jobs.size() == 2);
  must(two.try_batch({Node::done(jobs[0])}));  // one statement
  one.apply<PutTriggerResult>(watch("t", "q", "then"));
  const BatchReport report = must(two.try_batch({Node::done(jobs[1])}));
  CHECK(std::get<FinishResult>(report.results[0]).results[0] == FinishStatus::ok);
  CHECK(report.effects.made.size() == 1);
  CHECK(fired(one, "t") == 1);
  CHECK(two.claim("then", 5).size() == 1);
  one.apply<Done>(RemoveTrigger{.name = "t"});
  two.enqueue("q");
  const auto more = two.claim("q", 1);
  REQUIRE(more.size() == 1);
  CHECK(must(two.try_batch({Node::done(more[0])})).effects.made.empty());
  must_be_sound(one);
}

TEST_CASE(
    "two nodes whose completions fire the same triggers fire each once, and none waits long") {
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  // Named against the order of their queues: each batch needs both.
  one.apply<PutTriggerResult>(watch("b", "x", "of-x"));
  one.apply<PutTriggerResult>(watch("a", "y", "of-y"));
  const auto half = [](Node& node, bool x_first) {
    for (int i = 0; i < kRounds; ++i) {
      node.enqueue("x");
      node.enqueue("y");
      const auto x = node.claim("x", 1), y = node.claim("y", 1);
      std::vector<Operation> batch;
      for (const auto* jobs : {x_first ? &x : &y, x_first ? &y : &x}) {
        for (const ClaimedJob& job : *jobs) batch.push_back(Node::done(job));
      }
      if (batch.empty()) continue;
      const BatchReport report = must(node.try_batch(batch));
      for (const OperationResult& result : report.results)
        CHECK(std::get<FinishResult>(result).results[0] == FinishStatus::ok);
    }
  };
  std::barrier together(2);
  std::thread other([&] {
    together.arrive_and_wait();
    half(two, false);
  });
  together.arrive_and_wait();
  half(one, true);
  other.join();
  for (const char* queue : {"x", "y"}) {
    for (const ClaimedJob& job : one.claim(queue, 1000)) must(one.try_batch({Node::done(job)}));
  }
  CHECK(fired(one, "a") == 2 * kRounds);
  CHECK(fired(one, "b") == 2 * kRounds);
  CHECK(one.claim("of-x", 1000).size() == 2 * kRounds);
  CHECK(value(place, "SELECT count(*) FROM schema.trigger_events") == std::to_string(4 * kRounds));
  must_be_sound(two);
}

TEST_CASE("a job of a queue whose completions fire is not completed by SQL") {
  const PostgresOptions place = new_place();
  Node node(place);
  PutTrigger put = watch("t", "q", "then");
  put.trigger.ended->on = FollowUp::kDead;
  node.apply<PutTriggerResult>(put);
  const auto by_sql = [&] {
    node.enqueue("q");
    const auto jobs = node.claim("q", 1);
    REQUIRE(jobs.size() == 1);
    return the_cluster().sql(
        fmt::format("SELECT {}.complete({}, {})", place.schema, jobs[0].id, jobs[0].token),
        the_database());
  };
  CHECK(by_sql().has_value());  // of deaths alone
  put.trigger.ended->on = FollowUp::kEveryEnd;
  node.apply<PutTriggerResult>(put);
  const auto refused = by_sql();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("is of a queue that trigger t watches") != std::string::npos);
  put.trigger.ended->queue.clear();
  node.apply<PutTriggerResult>(put);
  CHECK_FALSE(by_sql().has_value());
  put.trigger.ended->queue = "elsewhere";
  node.apply<PutTriggerResult>(put);
  CHECK(by_sql().has_value());
}

}  // namespace mainspring::pg_testing
