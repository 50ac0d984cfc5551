// What workflows promise after a failure: completed steps are undone, in reverse order, once.
#include "api/step_key.h"
#include "conformance/workflow_bench.h"

namespace mainspring::conformance {
namespace {

using B = WorkflowBench;

// Three in a row, each with its undo.
std::string three(const std::string& more_of_c = "") {
  return B::step("a", B::undo("a")) + "," + B::step("b", B::after(R"("a")") + B::undo("b")) + "," +
         B::step("c", B::after(R"("b")") + B::undo("c") + more_of_c);
}

TEST_SUITE("store: workflows undone") {
  TEST_CASE("WF-2: when a step fails those that completed are undone, the last to end first") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a", R"({"n":1})");
    b.done("b");
    b.die("c");
    CHECK(b.effects().workflows == std::vector<WorkflowId>{id});
    CHECK(b.state_of(id) == WorkflowState::undoing);
    CHECK(b.started() == "undo-b");
    b.done("undo-b");
    CHECK(b.started() == "undo-a");
    CHECK(b.of("undo-a").args == R"({"step":"a","args":{},"result":{"n":1}})");
    b.done("undo-a");
    CHECK(b.started() == "");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.states(id) == "a:undone b:undone c:failed");
    CHECK(b.info(id).reason == "step c: dead: broken: it is broken");
    CHECK(b.info(id).undone == 2);
  }

  TEST_CASE("WF-2: a step whose effects are unknown is undone, too") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a");
    b.done("b");
    (void)b.of("c");
    b.advance(minutes(10));  // its worker is gone
    CHECK(b.rescue() == 1);
    CHECK(b.state_of(id) == WorkflowState::undoing);
    CHECK(b.started() == "undo-c");
    b.done("undo-c");
    b.done("undo-b");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("a step that reports its failure is undone only if its definition asks for it") {
    WorkflowBench b;
    b.start(three(R"(,"undo_if_failed":true)"));
    b.done("a");
    b.done("b");
    b.die("c");
    CHECK(b.started() == "undo-c");
  }

  TEST_CASE("steps parallel to a failed one get a cancel request, and are undone once they ended") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", b.undo("a")) + "," + b.step("b", b.undo("b")) + "," +
                                  b.step("c", b.undo("c")));
    CHECK(b.started() == "a b c");
    b.die("a");
    CHECK(b.get(b.of("b").id).cancel_requested);
    CHECK(b.started() == "");
    b.done("b");  // completed before it got the cancel request
    CHECK(b.started() == "");
    b.end("c", CancelJob{""});  // in the middle of it
    CHECK(b.started() == "undo-c");
    b.done("undo-c");
    CHECK(b.started() == "undo-b");
    b.done("undo-b");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.states(id) == "a:failed b:undone c:undone");
  }

  TEST_CASE("a job that has not started is cancelled with its workflow and needs no undo") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", b.undo("a")) + "," + b.step("b", b.undo("b")));
    const auto first = b.claim(1);
    REQUIRE(first.size() == 1);
    CHECK(b.finish(first[0], Dead{"broken", ""}) == FinishStatus::ok);
    CHECK(b.started() == "");
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.count(JobState::cancelled) == 1);
  }

  TEST_CASE("steps are undone in parallel if the order does not matter") {
    WorkflowBench b;
    const WorkflowId id = b.start(three(), R"(,"undo_order":"parallel")");
    b.done("a");
    b.done("b");
    b.die("c");
    CHECK(b.started() == "undo-b undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undoing);
    b.done("undo-b");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE(
      "WF-2: a dead undo parks its workflow with an alarm, until a retry or a result by hand") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a");
    b.done("b");
    b.die("c");
    b.die("undo-b");
    CHECK(b.state_of(id) == WorkflowState::parked);
    REQUIRE(b.effects().alarms.size() == 1);
    CHECK(b.effects().alarms[0].find("step b: its undo: dead: broken: it is broken") !=
          std::string::npos);
    CHECK(b.started() == "");
    CHECK(b.step_of(id, "b").state == StepState::undo_failed);
    CHECK(b.step_of(id, "b").reason == "its undo: dead: broken: it is broken");
    CHECK(b.refused(RetryWorkflow{id, "a", false, {}}) == ErrorCode::not_found);
    CHECK(b.one<WorkflowInfo>(RetryWorkflow{id, "", false, {}}).state == WorkflowState::undoing);
    CHECK(b.started() == "undo-b");
    b.die("undo-b");
    CHECK(b.state_of(id) == WorkflowState::parked);
    b.reopen();
    CHECK(b.one<WorkflowInfo>(RetryWorkflow{id, "b", true, {}}).undone == 1);
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.refused(RetryWorkflow{id, "", false, {}}) == ErrorCode::conflict);
  }

  TEST_CASE("WF-2: all undo jobs of a step have one idempotency key, derived from the step's key") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    const std::string key = step_key_of(b.of("a").headers);
    b.done("a");
    CHECK(key.starts_with("ms-w" + std::to_string(id) + "-1-"));
    CHECK(step_key_of(b.of("b").headers) != key);
    b.die("b");
    const ClaimedJob first = b.of("undo-a");
    CHECK(step_key_of(first.headers) == key + "-undo");
    for (int i = 0; i < 2; ++i) {
      b.die("undo-a");
      CHECK(b.state_of(id) == WorkflowState::parked);
      b.advance(seconds(5));
      if (i == 1) b.reopen();
      b.one<WorkflowInfo>(RetryWorkflow{id, "", false, {}});
      CHECK(b.of("undo-a").id != first.id);
      CHECK(step_key_of(b.of("undo-a").headers) == key + "-undo");
    }
    b.start(three());
    CHECK(step_key_of(b.of("a").headers) != key);
  }

  TEST_CASE("the key of a step is added to the headers of its job, and its reply has none") {
    WorkflowBench b;
    b.start(R"({"name":"e","each":[5,6],"job":{"queue":"q","kind":"e","headers":{"t":"1"},)"
            R"("reply_to":"answers"}})");
    const auto jobs = b.claim(2);
    REQUIRE(jobs.size() == 2);
    CHECK(jobs[0].headers.ends_with(R"(,"t":"1"})"));
    CHECK(step_key_of(jobs[0].headers) != step_key_of(jobs[1].headers));
    CHECK(b.finish(jobs[0], Complete{"50"}) == FinishStatus::ok);
    CHECK(b.claim(1, {"answers"}).at(0).headers == R"({"t":"1"})");
  }

  TEST_CASE("a cancelled workflow is undone and then cancelled") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a");
    b.started();
    CHECK(b.one<WorkflowInfo>(CancelWorkflow{id, "not wanted", {}}).state ==
          WorkflowState::undoing);
    CHECK(b.get(b.of("b").id).cancel_requested);
    b.end("b", CancelJob{""});
    b.done("undo-b");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::cancelled);
    CHECK(b.info(id).reason == "not wanted");
    CHECK(b.one<WorkflowInfo>(CancelWorkflow{id, "", {}}).state == WorkflowState::cancelled);
    const WorkflowId quick = b.start(R"({"name":"s","signal":"go"})");
    CHECK(b.one<WorkflowInfo>(CancelWorkflow{quick, "", {}}).state == WorkflowState::cancelled);
    CHECK(b.refused(CancelWorkflow{999, "", {}}) == ErrorCode::not_found);
  }

  TEST_CASE("a completed workflow is not cancelled") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a"));
    b.done("a");
    CHECK(b.refused(CancelWorkflow{id, "", {}}) == ErrorCode::conflict);
    CHECK(b.refused(PauseWorkflow{id, true, {}}) == ErrorCode::conflict);
  }

  TEST_CASE("a step that is not done by its deadline has failed, and late answers are ignored") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", R"(,"deadline":"1s")" + b.undo("a")) + "," +
                                  b.step("b", b.after(R"("a")")));
    const ClaimedJob late = b.of("a");
    b.advance(seconds(2));
    CHECK(b.wake() == 1);
    CHECK(b.state_of(id) == WorkflowState::undoing);
    CHECK(b.step_of(id, "a").reason.find("deadline") != std::string::npos);
    CHECK(b.get(late.id).cancel_requested);
    CHECK(b.finish(late, Complete{.result = "1", .next = {b.job("more")}}) == FinishStatus::stale);
    CHECK(b.get(late.id).state == JobState::cancelled);
    CHECK(b.get(late.id).result == "");
    CHECK(b.get(late.id).reason.find("deadline") != std::string::npos);
    CHECK(b.finish(late, Complete{"1"}) == FinishStatus::stale);
    CHECK(b.states(id) == "a:undoing b:skipped");
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("a workflow that is not done by its deadline is undone") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a", b.undo("a")) + R"(,{"name":"s","signal":"go","after":["a"]})",
                R"(,"deadline":"1h")");
    b.done("a");
    CHECK(b.info(id).deadline_at == b.wall() + hours(1));
    b.advance(hours(1));
    CHECK(b.wake() == 1);
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.store->agenda().next_workflow == WallTime::never());
  }

  TEST_CASE("jobs of a list are undone one by one, each with its own element and result") {
    WorkflowBench b;
    const WorkflowId id = b.start(
        R"({"name":"e","each":[5,6],"job":{"queue":"q","kind":"e","args":{"n":{"$ref":"item"}}},)"
        R"("undo":{"queue":"q","kind":"u","args":{"n":{"$ref":"item"},"r":{"$ref":"e"}}}},)" +
        b.step("last", b.after(R"("e")")));
    const auto jobs = b.claim(2);
    REQUIRE(jobs.size() == 2);
    CHECK(b.finish(jobs[0], Complete{"50"}) == FinishStatus::ok);
    CHECK(b.finish(jobs[1], Complete{"60"}) == FinishStatus::ok);
    b.die("last");
    CHECK(b.of("u").args == R"({"n":6,"r":60})");
    b.done("u");
    CHECK(b.of("u").args == R"({"n":5,"r":50})");
    b.done("u");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("a pause stops undoing") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a");
    b.started();
    b.one<WorkflowInfo>(PauseWorkflow{id, true, {}});
    b.die("b");
    CHECK(b.started() == "");
    b.one<WorkflowInfo>(PauseWorkflow{id, false, {}});
    CHECK(b.started() == "undo-a");
  }

  TEST_CASE("an undo continues after a restart where it was") {
    WorkflowBench b;
    const WorkflowId id = b.start(three());
    b.done("a");
    b.done("b");
    b.die("c");
    const ClaimedJob job = b.of("undo-b");
    b.reopen();
    CHECK(b.finish(job, Complete{}) == FinishStatus::ok);
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.stats().enqueued == 5);
  }
}

}  // namespace
}  // namespace mainspring::conformance
