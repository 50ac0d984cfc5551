// Workflows whose steps run on several nodes of one database.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <barrier>
#include <thread>

#include "api/workflow_shapes.h"
#include "postgres/places.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {
namespace {

constexpr int kRounds = 200;

std::string step(const std::string& name, const std::string& more = "") {
  return R"({"name":")" + name + R"(","job":{"queue":"q","kind":")" + name +
         R"(","max_attempts":1})" + more + "}";
}
WorkflowSpec workflow(const std::string& steps, const std::string& more = "") {
  return must(decode_workflow(R"({"name":"w")" + more + R"(,"steps":[)" + steps + "]}"));
}

class Node {
 public:
  explicit Node(const PostgresOptions& place)
      : store_(must(open_postgres_store(place, clock_.now(), log_))) {}

  Result<OperationResult> try_apply(Operation operation) {
    MS_TRY_ASSIGN(BatchReport report, store_->apply({&operation, 1}, clock_.now()));
    return std::move(report.results[0]);
  }
  template <class T>
  T apply(Operation operation) {
    OperationResult result = must(try_apply(std::move(operation)));
    if (const auto* error = std::get_if<Error>(&result)) FAIL(error->message);
    return std::get<T>(std::move(result));
  }
  std::vector<ClaimedJob> claim(int max) {
    return apply<ClaimResult>(
               Claim{.worker = "w", .queues = {"q"}, .kinds = {}, .max = max, .lease = minutes(1)})
        .jobs;
  }
  FinishStatus finish(const ClaimedJob& job, Outcome outcome) {
    const Finish finish{.worker = "w", .results = {{job.id, job.token, std::move(outcome)}}};
    return apply<FinishResult>(finish).results[0];
  }
  SharedStore& store() { return *store_; }

 private:
  static Duration minutes(int n) { return std::chrono::minutes(n); }
  SystemClock clock_;
  NullLog log_;
  std::unique_ptr<SharedStore> store_;
};

std::string value(const PostgresOptions& place, const std::string& sql) {
  std::string text = sql;
  constexpr std::string_view kWord = "schema.";
  for (std::size_t at = 0; (at = text.find(kWord, at)) != std::string::npos;) {
    text.replace(at, kWord.size(), place.schema + ".");
    at += place.schema.size() + 1;
  }
  const auto rows = must(the_cluster().sql(text, the_database()));
  return rows.empty() || rows[0].empty() ? "" : rows[0][0];
}

void must_be_sound(Node& node) {
  const auto report = must(node.store().verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
}

// Both at the same time, each on its own node.
template <class First, class Second>
void at_once(First first, Second second) {
  std::barrier together(2);
  std::thread other([&] {
    together.arrive_and_wait();
    second();
  });
  together.arrive_and_wait();
  first();
  other.join();
}

}  // namespace

TEST_CASE("WF-3: parents that end on two nodes at the same time start their join once") {
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  const WorkflowSpec spec =
      workflow(step("a") + "," + step("b") + "," + step("join", R"(,"after":["a","b"])"));
  for (int round = 0; round < kRounds; ++round) {
    const WorkflowId id = one.apply<WorkflowStarted>(StartWorkflow{spec}).id;
    const auto jobs = one.claim(2);
    REQUIRE(jobs.size() == 2);
    at_once([&] { CHECK(one.finish(jobs[0], Complete{"1"}) == FinishStatus::ok); },
            [&] { CHECK(two.finish(jobs[1], Complete{"2"}) == FinishStatus::ok); });
    const auto joins = one.claim(5);
    REQUIRE(joins.size() == 1);
    CHECK(joins[0].kind == "join");
    CHECK(one.finish(joins[0], Complete{}) == FinishStatus::ok);
    CHECK(must(two.store().workflow(id)).state == WorkflowState::completed);
  }
  CHECK(value(place, "SELECT count(*) FROM schema.jobs") == std::to_string(3 * kRounds));
  must_be_sound(two);
}

TEST_CASE(
    "a step that fails and those beside it that end on another node undo their workflow once") {
  must(the_cluster().set("deadlock_timeout", "20ms"));
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  const std::string undo = R"(,"undo":{"queue":"undo","kind":"u","max_attempts":1})";
  const WorkflowSpec spec = workflow(step("a", undo) + "," + step("b", undo));
  for (int round = 0; round < kRounds / 2; ++round) {
    const WorkflowId id = one.apply<WorkflowStarted>(StartWorkflow{spec}).id;
    const auto jobs = one.claim(2);
    REQUIRE(jobs.size() == 2);
    const bool both = round % 2 == 1;
    at_once(
        [&] {
          CHECK(one.finish(jobs[0], Dead{"x", "y"}) == FinishStatus::ok);
        },
        [&] {
          const Outcome outcome = both ? Outcome(Dead{"x", "y"}) : Outcome(Complete{});
          CHECK(two.finish(jobs[1], outcome) == FinishStatus::ok);
        });
    const WorkflowInfo info = must(one.store().workflow(id));
    CHECK(info.state == (both ? WorkflowState::failed : WorkflowState::undoing));
    CHECK(info.running == 0);
  }
  CHECK(value(place,
              "SELECT count(*) FROM schema.jobs j JOIN schema.queues q ON q.id = j.queue "
              "WHERE q.name = 'undo'") == std::to_string(kRounds / 4));
  must_be_sound(two);
}

TEST_CASE("two nodes that start a workflow of one key at the same time start one") {
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  for (int round = 0; round < kRounds / 4; ++round) {
    const WorkflowSpec spec = workflow(step("a"), fmt::format(R"(,"key":"k{}")", round));
    WorkflowStarted first, second;
    at_once([&] { first = one.apply<WorkflowStarted>(StartWorkflow{spec}); },
            [&] { second = two.apply<WorkflowStarted>(StartWorkflow{spec}); });
    CHECK(first.id == second.id);
    CHECK(first.duplicate != second.duplicate);
  }
  CHECK(value(place, "SELECT count(*) FROM schema.jobs") == std::to_string(kRounds / 4));
}

TEST_CASE("numbers that a batch reserved but did not use are not used by later batches") {
  // A server that crashes may assign them again, to another node.
  PostgresOptions place = new_place();
  place.ids_ahead = true;
  Node node(place);
  const StartWorkflow one{workflow(step("a"), R"(,"key":"k")")};
  const std::vector<Operation> twice = {one, one};
  const BatchReport report = must(node.store().apply(twice, SystemClock().now()));
  CHECK(std::get<WorkflowStarted>(report.results[0]).id == 1);
  CHECK(std::get<WorkflowStarted>(report.results[1]).duplicate);
  CHECK(node.apply<WorkflowStarted>(StartWorkflow{workflow(step("a"))}).id == 3);
}

TEST_CASE("packed workflows and others work in one store") {
  PostgresOptions place = new_place();
  place.packed_workflows = false;
  PostgresOptions with = place;
  with.packed_workflows = true;
  // Packed workflows and others.
  const auto counts = [&] {
    return value(place,
                 "SELECT (SELECT count(*) FROM schema.workflow_rows WHERE kind = 0 AND number = 4) "
                 "|| ' ' || (SELECT count(*) FROM schema.workflow_rows WHERE kind = 2)");
  };
  {
    Node node(place);
    node.apply<WorkflowStarted>(
        StartWorkflow{workflow(step("a") + "," + step("b", R"(,"after":["a"])"))});
  }
  CHECK(counts() == "0 2");
  Node node(with);
  const WorkflowId packed = node.apply<WorkflowStarted>(StartWorkflow{workflow(step("a"))}).id;
  CHECK(counts() == "1 2");
  for (int round = 0; round < 2; ++round) {
    for (const ClaimedJob& job : node.claim(9))
      CHECK(node.finish(job, Complete{}) == FinishStatus::ok);
  }
  for (WorkflowId id = 1; id <= packed; ++id)
    CHECK(must(node.store().workflow(id)).state == WorkflowState::completed);
  must_be_sound(node);
}

TEST_CASE("a workflow is forked on another node than the one that ran it") {
  const PostgresOptions place = new_place();
  Node node(place), other(place);
  const WorkflowId id =
      node.apply<WorkflowStarted>(StartWorkflow{workflow(step("a") + "," + step("b"))}).id;
  for (const ClaimedJob& job : node.claim(2)) node.finish(job, Complete{});
  const WorkflowId forked = other.apply<WorkflowStarted>(ForkWorkflow{id, "b", {}, "", {}}).id;
  const auto jobs = node.claim(2);
  REQUIRE(jobs.size() == 1);
  CHECK(node.finish(jobs[0], Complete{}) == FinishStatus::ok);
  CHECK(must(other.store().workflow(forked)).state == WorkflowState::completed);
  must_be_sound(node);
}

TEST_CASE("two nodes that fork a workflow with one key at the same time fork it once") {
  const PostgresOptions place = new_place();
  Node one(place), two(place);
  const WorkflowId id = one.apply<WorkflowStarted>(StartWorkflow{workflow(step("a"))}).id;
  for (const ClaimedJob& job : one.claim(1)) one.finish(job, Complete{});
  for (int round = 0; round < kRounds / 4; ++round) {
    const ForkWorkflow fork{id, "a", {}, fmt::format("k{}", round), {}};
    WorkflowStarted first, second;
    at_once([&] { first = one.apply<WorkflowStarted>(fork); },
            [&] { second = two.apply<WorkflowStarted>(fork); });
    CHECK(first.id == second.id);
    CHECK(first.duplicate != second.duplicate);
  }
  CHECK(value(place, "SELECT count(*) FROM schema.jobs") == std::to_string(1 + kRounds / 4));
  must_be_sound(two);
}

TEST_CASE("the job of a step is not completed by SQL, which cannot start the next steps") {
  const PostgresOptions place = new_place();
  Node node(place);
  node.apply<WorkflowStarted>(StartWorkflow{workflow(step("a"))});
  const auto jobs = node.claim(1);
  REQUIRE(jobs.size() == 1);
  const auto refused = the_cluster().sql(
      fmt::format("SELECT {}.complete({}, {})", place.schema, jobs[0].id, jobs[0].token),
      the_database());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("is a step of a workflow") != std::string::npos);
  CHECK(node.finish(jobs[0], Complete{}) == FinishStatus::ok);
}

}  // namespace mainspring::pg_testing
