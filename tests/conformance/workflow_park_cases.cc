// Conformance: a failed step with `on_failure` park parks its workflow. An operator then retries
// the step, marks it as done, or undoes the workflow.
#include <doctest/doctest.h>

#include "api/step_key.h"
#include "conformance/workflow_bench.h"

namespace mainspring::conformance {
namespace {

using B = WorkflowBench;

using std::chrono::seconds;

const std::string kPark = R"(,"on_failure":"park")";

// a, then b that parks, then c; in parallel d, which has no successor.
std::string workflow_park_four() {
  return B::step("a", B::undo("a")) + "," +
         B::step("b", B::after(R"("a")") + kPark + B::undo("b")) + "," +
         B::step("c", B::after(R"("b")")) + "," + B::step("d", B::undo("d"));
}

WorkflowInfo retry(WorkflowBench& b, WorkflowId id, const std::string& step = "") {
  return b.one<WorkflowInfo>(RetryWorkflow{.id = id, .step = step});
}
WorkflowInfo by_hand(WorkflowBench& b, WorkflowId id, const std::string& step = "",
                     const std::string& result = "") {
  return b.one<WorkflowInfo>(
      RetryWorkflow{.id = id, .step = step, .by_hand = true, .result = result});
}

TEST_SUITE("workflows that a step parks") {
  TEST_CASE("a failed step parks: nothing is undone, and its retry has the same key") {
    WorkflowBench b;
    const WorkflowId id = b.start(workflow_park_four());
    b.done("a");
    const ClaimedJob first = b.of("b");
    b.die("b");
    CHECK(b.state_of(id) == WorkflowState::parked);
    CHECK(b.info(id).reason == "step b: dead: broken: it is broken");
    CHECK(b.states(id) == "a:completed b:failed c:waiting d:running");
    REQUIRE(b.effects().alarms.size() == 1);
    CHECK(b.effects().alarms[0].find("step b: dead: broken") != std::string::npos);
    b.reopen();
    CHECK(b.refused(RetryWorkflow{.id = id, .step = "a"}) == ErrorCode::not_found);
    const WorkflowInfo info = retry(b, id, "b");
    CHECK(info.state == WorkflowState::running);
    CHECK(info.reason == "");
    CHECK(info.failed == 0);
    CHECK(b.refused(RetryWorkflow{.id = id}) == ErrorCode::conflict);
    CHECK(b.of("b").id != first.id);
    CHECK(step_key_of(b.of("b").headers) == step_key_of(first.headers));
    b.done("b");
    b.done("c");
    b.done("d");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).completed == 4);
  }

  TEST_CASE("while parked, running steps end, no step starts, and signals are taken") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("x", kPark) + "," + b.step("y") + "," + b.step("z", b.after(R"("y")")) +
                R"(,{"name":"t","sleep":"5s"},{"name":"s","signal":"go"},)" +
                b.step("last", b.after(R"("t","s")")));
    b.die("x");
    b.done("y");
    CHECK(b.started() == "");
    CHECK(b.states(id) == "x:failed y:completed z:waiting t:running s:running last:waiting");
    b.advance(seconds(6));
    CHECK(b.wake() == 1);
    b.one<Done>(SignalWorkflow{id, "go", "", "1", {}});
    b.reopen();
    CHECK(b.started() == "");
    CHECK(b.states(id) == "x:failed y:completed z:waiting t:completed s:completed last:waiting");
    retry(b, id);
    b.started();
    for (const std::string kind : {"z", "last"}) b.done(kind);
    CHECK(b.state_of(id) == WorkflowState::running);
    b.done("x");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("a step marked as done with a result is undone like others when a later step fails") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", kPark + b.undo("a")) + "," +
                                  R"({"name":"c","job":{"queue":"q","kind":"c","max_attempts":1,)"
                                  R"("args":{"of":{"$ref":"a.id"}}}})");
    b.die("a");
    CHECK(b.refused(RetryWorkflow{.id = id, .step = "c", .by_hand = true, .result = "1"}) ==
          ErrorCode::not_found);
    CHECK(by_hand(b, id, "a", R"({"id":"c1"})").state == WorkflowState::running);
    CHECK(b.step_of(id, "a").state == StepState::completed);
    CHECK(b.of("c").args == R"({"of":"c1"})");
    b.die("c");
    CHECK(b.of("undo-a").args == R"({"step":"a","args":{},"result":{"id":"c1"}})");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("marking the last step as done completes its workflow") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", kPark), R"(,"result":{"$ref":"a"})");
    b.die("a");
    CHECK(by_hand(b, id, "", "").state == WorkflowState::completed);
    CHECK(b.info(id).result == "null");
  }

  TEST_CASE("a result is refused for a step that has to be undone") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", b.undo("a")) + "," + b.step("b", b.after(R"("a")")));
    b.done("a");
    b.die("b");
    b.die("undo-a");
    CHECK(b.refused(RetryWorkflow{.id = id, .step = "a", .by_hand = true, .result = "1"}) ==
          ErrorCode::conflict);
    CHECK(b.state_of(id) == WorkflowState::parked);
  }

  TEST_CASE("it continues when the last step that parked it is resolved") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("x", kPark) + "," + b.step("y", kPark) + "," +
                                  b.step("z", b.after(R"("x")")));
    b.die("x");
    b.die("y");
    CHECK(b.info(id).failed == 2);
    CHECK(by_hand(b, id, "x").state == WorkflowState::parked);
    b.reopen();
    CHECK(b.started() == "");
    CHECK(retry(b, id, "y").state == WorkflowState::running);
    b.done("y");
    b.die("z");
    CHECK(b.state_of(id) == WorkflowState::failed);
  }

  TEST_CASE("a parked workflow is undone by a cancel, a deadline or another failed step") {
    for (const int how : {0, 1, 2}) {
      CAPTURE(how);
      WorkflowBench b;
      const WorkflowId id = b.start(workflow_park_four(), R"(,"deadline":"60s")");
      b.done("a");
      b.die("b");
      if (how == 0) b.one<WorkflowInfo>(CancelWorkflow{id, "", {}});
      if (how == 1) {
        b.advance(seconds(61));
        CHECK(b.wake() == 1);
      }
      if (how == 2) {
        b.die("d");
      } else {
        b.end("d", CancelJob{""});
        b.done("undo-d");
      }
      b.done("undo-a");
      CHECK(b.started() == "");
      CHECK(b.state_of(id) == (how == 0 ? WorkflowState::cancelled : WorkflowState::undone));
      CHECK(b.refused(RetryWorkflow{.id = id}) == ErrorCode::conflict);
    }
  }

  TEST_CASE("WF-2: a step that may have taken effect is undone, even if its retry fails") {
    WorkflowBench b;
    const WorkflowId id = b.start(workflow_park_four());
    b.done("a");
    b.started();
    b.end("b", CancelJob{""});  // while it ran: its effects are unknown
    CHECK(b.state_of(id) == WorkflowState::parked);
    retry(b, id);
    b.die("b");
    b.one<WorkflowInfo>(CancelWorkflow{id, "", {}});
    b.end("d", CancelJob{""});
    b.done("undo-d");
    b.done("undo-b");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::cancelled);
  }

  TEST_CASE("a deadline counts from the retry of the step") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", kPark + R"(,"deadline":"10s")"));
    b.die("a");
    b.advance(seconds(8));
    retry(b, id);
    b.of("a");
    b.advance(seconds(4));
    b.wake();
    CHECK(b.state_of(id) == WorkflowState::running);
    b.advance(seconds(7));
    b.wake();
    CHECK(b.state_of(id) == WorkflowState::parked);
    CHECK(b.info(id).reason == "step a: it was not done by its deadline");
  }

  TEST_CASE("the failed jobs of an `each` step are retried, with their elements") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"e","each":[5,6,7],"on_failure":"park","job":{"queue":"q","kind":"e",)"
                R"("max_attempts":1,"args":{"n":{"$ref":"item"}}}},)" +
                b.step("last", b.after(R"("e")")));
    auto jobs = b.claim(3);
    REQUIRE(jobs.size() == 3);
    CHECK(b.finish(jobs[0], Dead{"broken", ""}) == FinishStatus::ok);
    CHECK(b.finish(jobs[1], Complete{"60"}) == FinishStatus::ok);
    CHECK(b.finish(jobs[2], Dead{"broken", ""}) == FinishStatus::ok);
    CHECK(b.info(id).failed == 2);
    b.reopen();
    retry(b, id, "e");
    jobs = b.claim(3);
    REQUIRE(jobs.size() == 2);
    CHECK(jobs[0].args == R"({"n":5})");
    CHECK(jobs[1].args == R"({"n":7})");
    for (const ClaimedJob& job : jobs) CHECK(b.finish(job, Complete{"1"}) == FinishStatus::ok);
    CHECK(b.step_of(id, "e").state == StepState::completed);
    b.done("last");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("a step retried during a pause starts when the pause ends") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a", kPark));
    b.die("a");
    b.one<WorkflowInfo>(PauseWorkflow{id, true, {}});
    CHECK(retry(b, id).state == WorkflowState::running);
    CHECK(b.started() == "");
    b.one<WorkflowInfo>(PauseWorkflow{id, false, {}});
    b.done("a");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("a step that cannot start parks again") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") + R"(,{"name":"c","on_failure":"park","job":{"queue":"q","kind":"c",)"
                              R"("args":{"of":{"$ref":"a.id"}}}})");
    b.done("a", "{}");
    CHECK(b.state_of(id) == WorkflowState::parked);
    CHECK(retry(b, id).state == WorkflowState::parked);
    CHECK(by_hand(b, id, "c").state == WorkflowState::completed);
  }

  TEST_CASE("a list that cannot be built can be marked as done with a given result") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") + R"(,{"name":"e","each":{"$ref":"a.parts"},"on_failure":"park",)"
                              R"("job":{"queue":"q","kind":"e"}},)" +
                R"({"name":"c","job":{"queue":"q","kind":"c","args":{"of":{"$ref":"e"}}}})");
    b.done("a", "{}");
    CHECK(b.info(id).reason.starts_with("step e: its each: "));
    by_hand(b, id, "e", "[1,2]");
    b.reopen();
    CHECK(b.of("c").args == R"({"of":[1,2]})");
  }

  TEST_CASE("a result for a child workflow's step is refused and changes nothing") {
    WorkflowBench b;
    const WorkflowId id = b.start(R"({"name":"sub","workflow":{"name":"v","steps":[)" +
                                  b.step("x", kPark) + "]}}," + b.step("y", kPark));
    b.die("x");
    b.die("y");
    CHECK(b.refused(RetryWorkflow{.id = id, .step = "sub", .by_hand = true, .result = "1"}) ==
          ErrorCode::not_found);
    CHECK(b.state_of(b.step_of(id, "sub").workflow) == WorkflowState::parked);
    CHECK(by_hand(b, id).state == WorkflowState::completed);
  }

  TEST_CASE("a parked child shows in its parent, and a retry of either continues it") {
    for (const bool of_parent : {true, false}) {
      CAPTURE(of_parent);
      WorkflowBench b;
      const WorkflowId id = b.start(R"({"name":"sub","workflow":{"name":"v","steps":[)" +
                                    b.step("x", kPark) + "]}}," + b.step("y", b.after(R"("sub")")));
      b.die("x");
      const WorkflowId child = b.step_of(id, "sub").workflow;
      CHECK(b.state_of(child) == WorkflowState::parked);
      CHECK(b.state_of(id) == WorkflowState::running);
      CHECK(b.step_of(id, "sub").state == StepState::undo_failed);
      b.reopen();
      retry(b, of_parent ? id : child);
      CHECK(b.step_of(id, "sub").state == StepState::running);
      b.done("x");
      b.done("y");
      CHECK(b.state_of(id) == WorkflowState::completed);
    }
  }

  TEST_CASE("a parked child is undone with its parent, which does not wait forever") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"sub","workflow":{"name":"v","steps":[)" + b.step("w", b.undo("w")) +
                "," + b.step("x", kPark) + "]}}," + b.step("y"));
    b.done("w");
    b.die("x");
    b.die("y");
    CHECK(b.state_of(id) == WorkflowState::undoing);
    b.done("undo-w");
    CHECK(b.state_of(b.step_of(id, "sub").workflow) == WorkflowState::cancelled);
    CHECK(b.state_of(id) == WorkflowState::failed);
  }

  TEST_CASE("a retry of a step whose child workflow was undone starts a new child workflow") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"sub","on_failure":"park","workflow":{"name":"v",)"
                R"("steps":[)" +
                b.step("w", b.undo("w")) + "," + b.step("x", b.after(R"("w")")) + "]}}");
    b.done("w");
    b.die("x");
    b.done("undo-w");
    CHECK(b.state_of(id) == WorkflowState::parked);
    const WorkflowId first = b.step_of(id, "sub").workflow;
    retry(b, id);
    CHECK(b.step_of(id, "sub").workflow != first);
    b.done("w");
    b.done("x");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.state_of(first) == WorkflowState::undone);
  }
}

}  // namespace
}  // namespace mainspring::conformance
