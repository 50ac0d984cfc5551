// What workflows promise about child workflows: they start once, their end ends the step, and
// changes of the parent reach them.
#include "conformance/workflow_bench.h"

namespace mainspring::conformance {
namespace {

using B = WorkflowBench;

// A step with a child workflow of these steps.
std::string child(const std::string& name, const std::string& steps, const std::string& more = "",
                  const std::string& more_of_it = "") {
  return R"({"name":")" + name + R"(","workflow":{"name":"sub")" + more_of_it + R"(,"steps":[)" +
         steps + "]}" + more + "}";
}
// x ▶ y, each with its undo.
std::string two(const std::string& x = "x", const std::string& y = "y") {
  return B::step(x, B::undo(x)) + "," + B::step(y, B::after('"' + x + '"') + B::undo(y));
}
// a ▶ sub(x ▶ y) ▶ z, all with undo.
std::string whole(const std::string& more = "", const std::string& more_of_it = "") {
  return B::step("a", B::undo("a")) + "," +
         child("sub", two(), B::after(R"("a")") + more, more_of_it) + "," +
         B::step("z", B::after(R"("sub")") + B::undo("z"));
}
WorkflowId child_of(const WorkflowBench& b, WorkflowId id, const std::string& step = "sub") {
  return b.step_of(id, step).workflow;
}

TEST_SUITE("store: workflows in workflows") {
  TEST_CASE("WF-1: a workflow step starts its child once, and the child's end ends the step") {
    WorkflowBench b;
    const std::string gets = R"(,"input":{"n":{"$ref":"a.n"},"w":{"$ref":"input.w"}},)"
                             R"("result":{"y":{"$ref":"y"},"n":{"$ref":"input.n"}})";
    const WorkflowId id =
        b.start(whole("", gets), R"(,"input":{"w":7},"result":{"$ref":"sub.y.k"})");
    CHECK(child_of(b, id) == 0);
    b.done("a", R"({"n":1})");
    const WorkflowId sub = child_of(b, id);
    REQUIRE(sub > id);
    CHECK(b.states(id) == "a:completed sub:running z:waiting");
    CHECK(b.info(sub).input == R"({"n":1,"w":7})");
    CHECK(b.info(sub).parent == WorkflowParent{id, "sub"});
    CHECK(b.info(sub).name == "sub");
    CHECK_FALSE(b.info(id).parent.has_value());
    CHECK(b.store->workflows({}, 10, 0)->workflows.size() == 2);
    CHECK(b.started() == "x");
    b.reopen();
    b.done("x");
    CHECK(b.started() == "y");
    b.done("y", R"({"k":"end"})");
    CHECK(b.effects().workflows == std::vector<WorkflowId>{sub});
    CHECK(b.state_of(sub) == WorkflowState::completed);
    CHECK(b.info(sub).finished_at.has_value());
    CHECK(b.step_of(id, "sub").result == R"({"y":{"k":"end"},"n":1})");
    CHECK(b.started() == "z");
    b.done("z");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).result == R"("end")");
  }

  TEST_CASE("WF-1: a join of a workflow and a job waits for both, in either order") {
    for (const bool job_first : {true, false}) {
      WorkflowBench b;
      const WorkflowId id = b.start(B::step("a") + "," + child("sub", B::step("x")) + "," +
                                    B::step("join", B::after(R"("a","sub")")));
      CHECK(b.started() == "a x");
      b.done(job_first ? "a" : "x");
      CHECK(b.started() == "");
      b.done(job_first ? "x" : "a");
      CHECK(b.started() == "join");
      b.done("join");
      CHECK(b.state_of(id) == WorkflowState::completed);
    }
  }

  TEST_CASE("a child workflow without work ends at once, and its parent continues") {
    WorkflowBench b;
    const std::string skipped = B::step("x", R"(,"if":{"ref":"input.no"})");
    const WorkflowId id =
        b.start(child("sub", child("sub", skipped)) + "," + B::step("z", B::after(R"("sub")")));
    CHECK(b.started() == "z");
    b.done("z");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("WF-2: a failed child undoes itself, then its parent undoes its earlier steps") {
    WorkflowBench b;
    const WorkflowId id = b.start(whole());
    b.done("a");
    b.done("x");
    b.die("y");
    const WorkflowId sub = child_of(b, id);
    CHECK(b.state_of(id) == WorkflowState::running);
    CHECK(b.started() == "undo-x");
    b.done("undo-x");
    CHECK(b.state_of(sub) == WorkflowState::undone);
    CHECK(b.state_of(id) == WorkflowState::undoing);
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.states(id) == "a:undone sub:failed z:skipped");
    CHECK(b.step_of(id, "sub").reason ==
          "workflow 2 is undone: step y: dead: broken: it is broken");
  }

  TEST_CASE("with on_failure continue the parent continues after a failed child") {
    WorkflowBench b;
    const WorkflowId id = b.start(child("sub", two(), R"(,"on_failure":"continue")") + "," +
                                  B::step("z", B::after(R"("sub")")));
    b.die("x");
    CHECK(b.started() == "z");
    b.done("z");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("WF-2: a completed child is undone with its parent, at its place in the order") {
    WorkflowBench b;
    const WorkflowId id = b.start(whole());
    b.done("a");
    b.done("x", R"({"n":1})");
    b.done("y");
    b.die("z");
    const WorkflowId sub = child_of(b, id);
    CHECK(b.state_of(sub) == WorkflowState::undoing);
    CHECK_FALSE(b.info(sub).finished_at.has_value());
    CHECK(b.step_of(id, "sub").state == StepState::undoing);
    CHECK(b.started() == "undo-y");
    b.done("undo-y");
    b.reopen();
    CHECK(b.started() == "undo-x");
    CHECK(b.of("undo-x").args == R"({"step":"x","args":{},"result":{"n":1}})");
    b.done("undo-x");
    CHECK(b.state_of(sub) == WorkflowState::undone);
    CHECK(b.started() == "undo-a");
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.states(id) == "a:undone sub:undone z:failed");
    CHECK(b.info(id).undone == 2);
  }

  TEST_CASE("a child without undo steps stays completed") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(child("sub", B::step("x")) + "," + B::step("z", B::after(R"("sub")")));
    b.done("x");
    b.die("z");
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.state_of(child_of(b, id)) == WorkflowState::completed);
  }

  TEST_CASE("WF-2: an undo that dies parks the workflow and its parent, until it is done") {
    for (const bool from_above : {true, false}) {
      for (const bool by_hand : {true, false}) {
        WorkflowBench b;
        const WorkflowId id = b.start(whole());
        b.done("a");
        b.done("x");
        b.done("y");
        b.die("z");
        b.die("undo-y");
        const WorkflowId sub = child_of(b, id);
        CHECK(b.effects().alarms.size() == 1);
        CHECK(b.state_of(sub) == WorkflowState::parked);
        CHECK(b.state_of(id) == WorkflowState::parked);
        CHECK(b.states(id) == "a:completed sub:undo_failed z:failed");
        CHECK(b.started() == "");
        b.one<WorkflowInfo>(RetryWorkflow{from_above ? id : sub, "", by_hand, {}});
        CHECK(b.state_of(sub) == WorkflowState::undoing);
        CHECK(b.state_of(id) == WorkflowState::undoing);
        if (!by_hand) b.done("undo-y");
        b.done("undo-x");
        b.done("undo-a");
        CHECK(b.state_of(id) == WorkflowState::undone);
        CHECK(b.info(id).undo_failed == 0);
      }
    }
  }

  TEST_CASE("a child that parks shows in its step, and parallel steps continue") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(child("sub", two()) + "," + B::step("b") + "," + B::step("c", B::after(R"("b")")));
    b.done("x");
    b.die("y");
    b.die("undo-x");
    const WorkflowId sub = child_of(b, id);
    CHECK(b.state_of(sub) == WorkflowState::parked);
    CHECK(b.state_of(id) == WorkflowState::running);
    CHECK(b.step_of(id, "sub").state == StepState::undo_failed);
    b.done("b");
    CHECK(b.started() == "c");
    b.one<WorkflowInfo>(RetryWorkflow{id, "sub", false, {}});
    CHECK(b.step_of(id, "sub").state == StepState::running);
    b.die("undo-x");
    b.die("c");  // no other job is live
    CHECK(b.state_of(id) == WorkflowState::parked);
    b.one<WorkflowInfo>(RetryWorkflow{id, "", true, {}});
    CHECK(b.state_of(sub) == WorkflowState::undone);
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.states(id) == "sub:failed b:completed c:failed");
  }

  TEST_CASE("WF-2: a cancel reaches running children and ends when they are undone") {
    WorkflowBench b;
    const WorkflowId id = b.start(
        child("sub", B::step("w", B::undo("w")) + "," + child("sub", two(), B::after(R"("w")"))));
    b.done("w");
    b.done("x");
    const WorkflowId sub = child_of(b, id), deepest = child_of(b, sub);
    b.one<WorkflowInfo>(CancelWorkflow{id, "unwanted", {}});  // y waits
    CHECK(b.state_of(deepest) == WorkflowState::undoing);
    CHECK(b.started() == "undo-x");
    CHECK(b.state_of(sub) == WorkflowState::undoing);
    b.done("undo-x");
    CHECK(b.state_of(deepest) == WorkflowState::cancelled);
    b.done("undo-w");
    CHECK(b.state_of(sub) == WorkflowState::cancelled);
    CHECK(b.state_of(id) == WorkflowState::cancelled);
    CHECK(b.count(JobState::cancelled) == 1);
  }

  TEST_CASE("a child that is cancelled by itself fails its step") {
    WorkflowBench b;
    const WorkflowId id = b.start(whole());
    b.done("a");
    const WorkflowId sub = child_of(b, id);
    b.one<WorkflowInfo>(CancelWorkflow{sub, "unwanted", {}});
    CHECK(b.state_of(sub) == WorkflowState::cancelled);
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.info(id).reason == "step sub: workflow 2 is cancelled: unwanted");
  }

  TEST_CASE("a child that would start just as its parent fails is cancelled before it starts") {
    WorkflowBench b;
    const std::string bad = R"({"name":"bad","after":["a"],"job":{"queue":"q","kind":"bad",)"
                            R"("args":{"$ref":"a.nothing"}}})";
    const WorkflowId id =
        b.start(B::step("a") + "," + child("sub", two(), B::after(R"("a")")) + "," + bad);
    b.done("a", "{}");
    CHECK(b.started() == "");
    CHECK(b.state_of(child_of(b, id)) == WorkflowState::cancelled);
    CHECK(b.state_of(id) == WorkflowState::failed);
  }

  TEST_CASE("pause and resume reach running children") {
    WorkflowBench b;
    const WorkflowId id = b.start(child("sub", child("sub", two())));
    CHECK(b.started() == "x");
    const WorkflowId sub = child_of(b, id), deepest = child_of(b, sub);
    b.one<WorkflowInfo>(PauseWorkflow{id, true, {}});
    CHECK(b.info(deepest).paused);
    b.done("x");
    CHECK(b.started() == "");
    b.one<WorkflowInfo>(PauseWorkflow{id, false, {}});
    CHECK_FALSE(b.info(deepest).paused);
    b.done("y");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("the deadline of a step cancels its child; the step fails when the child is undone") {
    WorkflowBench b;
    const WorkflowId id = b.start(whole(R"(,"deadline":"1m")"));
    b.done("a");
    b.done("x");
    b.advance(minutes(1));
    CHECK(b.wake() == 1);
    const WorkflowId sub = child_of(b, id);
    CHECK(b.info(sub).reason == "its step was not done by its deadline");
    CHECK(b.step_of(id, "sub").state == StepState::running);
    b.done("undo-x");
    CHECK(b.state_of(sub) == WorkflowState::cancelled);
    b.done("undo-a");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("a child has its own deadline and timers, and takes signals by its own id") {
    WorkflowBench b;
    const std::string waits = R"({"name":"s","sleep":"10s"},)"
                              R"({"name":"go","signal":"go","after":["s"]})";
    const WorkflowId id =
        b.start(child("sub", waits, "", R"(,"deadline":"1m","result":{"$ref":"go"})") + "," +
                B::step("z", B::after(R"("sub")")));
    const WorkflowId sub = child_of(b, id);
    CHECK(b.info(sub).deadline_at.has_value());
    b.advance(seconds(10));
    CHECK(b.wake() == 1);
    b.one<Done>(SignalWorkflow{id, "go", "", "1", {}});  // no step waits for it
    CHECK(b.started() == "");
    b.one<Done>(SignalWorkflow{sub, "go", "", "2", {}});
    CHECK(b.step_of(id, "sub").result == "2");
    CHECK(b.started() == "z");
  }

  TEST_CASE("WF-1: a child for each element of a list, undone one by one") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(child("sub", B::step("x", B::undo("x")), R"(,"each":[5,6])",
                      R"(,"input":{"i":{"$ref":"item"}},"result":{"$ref":"input.i"})") +
                "," + B::step("z", B::after(R"("sub")")));
    const WorkflowId first = child_of(b, id, "sub[0]"), second = child_of(b, id, "sub[1]");
    CHECK(b.info(first).input == R"({"i":5})");
    CHECK(b.info(second).input == R"({"i":6})");
    for (const ClaimedJob& job : b.claim(10)) CHECK(b.finish(job, Complete{}) == FinishStatus::ok);
    CHECK(b.state_of(second) == WorkflowState::completed);
    CHECK(b.of("z").args == "{}");
    b.die("z");
    CHECK(b.started() == "undo-x");
    b.done("undo-x");
    CHECK(b.state_of(second) == WorkflowState::undone);
    CHECK(b.state_of(first) == WorkflowState::undoing);
    b.done("undo-x");
    CHECK(b.state_of(id) == WorkflowState::undone);
  }

  TEST_CASE("a list that would start more steps than allowed fails its step") {
    WorkflowBench b;
    std::string steps = B::step("s0"), items = "[0";
    for (int i = 1; i < 100; ++i) steps += "," + B::step("s" + std::to_string(i));
    for (int i = 1; i < 1001; ++i) items += ",0";
    const WorkflowId id = b.start(child("sub", steps, R"(,"each":)" + items + "]"));
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.step_of(id, "sub").reason == "its each has more than 1000 elements");
  }

  TEST_CASE("an input that refers to a missing value fails the step, and no child starts") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(child("sub", B::step("x"), "", R"(,"input":{"$ref":"input.no"})"));
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.step_of(id, "sub").reason == R"(its input: "$ref": "input.no" does not exist)");
    CHECK(b.store->workflows({}, 10, 0)->workflows.size() == 1);
  }

  TEST_CASE("FORK-1: a fork keeps the result of an earlier child and never undoes it") {
    WorkflowBench b;
    const WorkflowId old = b.start(whole("", R"(,"result":{"$ref":"y"})"));
    b.done("a");
    b.done("x");
    b.done("y", "3");
    const WorkflowId sub = child_of(b, old);
    CHECK(b.refused(ForkWorkflow{sub, "y", {}, "", {}}) == ErrorCode::conflict);
    b.done("z");
    const WorkflowId id = b.one<WorkflowStarted>(ForkWorkflow{old, "z", {}, "", {}}).id;
    CHECK(child_of(b, id) == sub);
    CHECK(b.step_of(id, "sub").taken_over);
    CHECK(b.step_of(id, "sub").result == "3");
    b.die("z");
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.state_of(sub) == WorkflowState::completed);
    const WorkflowId anew = b.one<WorkflowStarted>(ForkWorkflow{old, "sub", {}, "", {}}).id;
    CHECK(child_of(b, anew) > anew);
    CHECK(b.started() == "x");
    const WorkflowId of_sub = b.one<WorkflowStarted>(ForkWorkflow{sub, "y", {}, "", {}}).id;
    CHECK_FALSE(b.info(of_sub).parent.has_value());
    CHECK(b.started() == "y");
  }

  TEST_CASE("a child is pruned with its parent, and not before") {
    StoreOptions options;
    options.retention_completed = hours(1);
    options.retention_dead = hours(5);
    for (const bool well : {true, false}) {
      WorkflowBench b(options);
      const WorkflowId id = b.start(child("sub", child("sub", B::step("x"))) + "," +
                                    B::step("z", B::after(R"("sub")")));
      b.done("x");
      const WorkflowId sub = child_of(b, id), deepest = child_of(b, sub);
      b.advance(hours(2));
      b.prune();
      CHECK(b.state_of(deepest) == WorkflowState::completed);
      well ? b.done("z") : b.die("z");
      b.advance(hours(well ? 1 : 4));
      if (!well) {
        b.prune();
        CHECK(b.state_of(deepest) == WorkflowState::completed);
        b.advance(hours(1));
      }
      for (int i = 0; i < 10; ++i) b.one<StepResult>(PruneJobs{3, {}});
      for (const WorkflowId gone : {id, sub, deepest})
        CHECK(b.store->workflow(gone).error().code == ErrorCode::not_found);
    }
  }

  TEST_CASE("a child needs access to its own queues only, its parent to all queues") {
    WorkflowBench b;
    const std::string elsewhere = R"({"name":"e","job":{"queue":"else","kind":"e"}})";
    const WorkflowId id = b.start(B::step("a") + "," + child("sub", elsewhere));
    CHECK(b.info(id).queues == std::vector<std::string>{"else", "q"});
    CHECK(b.info(child_of(b, id)).queues == std::vector<std::string>{"else"});
    const Within within{std::make_shared<const Scopes>(*Scopes::parse("admin=else")), Verb::admin};
    const auto listed = b.store->workflows({.name = "", .state = {}, .within = within}, 9, 0);
    REQUIRE(listed->workflows.size() == 1);
    CHECK(listed->workflows[0].id == child_of(b, id));
    CHECK(b.refused(CancelWorkflow{id, "", within}) == ErrorCode::not_found);
    b.one<WorkflowInfo>(CancelWorkflow{child_of(b, id), "", within});
  }
}

}  // namespace
}  // namespace mainspring::conformance
