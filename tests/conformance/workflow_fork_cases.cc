// What workflows promise when an ended one is restarted from a step (a fork).
#include "conformance/workflow_bench.h"

namespace mainspring::conformance {
namespace {

using B = WorkflowBench;

// a ▶ b ▶ c, and a ▶ d
std::string four() {
  return B::step("a") + "," + B::step("b", B::after(R"("a")")) + "," +
         R"({"name":"c","job":{"queue":"q","kind":"c","max_attempts":1,)"
         R"("args":{"b":{"$ref":"b.n"},"in":{"$ref":"input"}}}},)" +
         B::step("d", B::after(R"("a")"));
}

WorkflowId fork(WorkflowBench& b, WorkflowId of, const std::string& step,
                std::optional<std::string> input = {}, const std::string& key = "") {
  return b.one<WorkflowStarted>(ForkWorkflow{of, step, std::move(input), key, {}}).id;
}
Error refusal(WorkflowBench& b, WorkflowId of, const std::string& step, Within within = {}) {
  const auto results = b.apply({ForkWorkflow{of, step, {}, "", std::move(within)}});
  const Error* error = std::get_if<Error>(&results[0]);
  return error == nullptr ? Error{} : *error;
}

TEST_SUITE("store: workflows forked") {
  TEST_CASE("FORK-1: the chosen step and the steps after it start again, all others are kept") {
    WorkflowBench b;
    const WorkflowId old = b.start(four(), R"(,"input":{"x":1},"result":{"$ref":"c"},"key":"k")");
    b.done("a", R"({"n":1})");
    b.done("d", "4");
    b.done("b", R"({"n":2})");
    b.done("c", R"("first")");
    REQUIRE(b.state_of(old) == WorkflowState::completed);
    const WorkflowId id = fork(b, old, "b");
    CHECK(id > old);
    CHECK(b.states(id) == "a:completed b:running c:waiting d:completed");
    CHECK(b.became_available("q"));
    CHECK(b.started() == "b");
    CHECK(b.step_of(id, "a").taken_over);
    CHECK(b.step_of(id, "a").result == R"({"n":1})");
    CHECK(b.step_of(id, "a").job == b.step_of(old, "a").job);
    CHECK_FALSE(b.step_of(id, "b").taken_over);
    CHECK(b.info(id).forked_from == ForkedFrom{old, "b"});
    CHECK(b.info(id).key == "");
    CHECK(b.info(id).name == "w");
    CHECK(b.info(id).completed == 2);
    b.reopen();
    b.done("b", R"({"n":3})");
    CHECK(b.of("c").args == R"({"b":3,"in":{"x":1}})");
    b.done("c", R"("second")");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).result == R"("second")");
    CHECK(b.info(old).result == R"("first")");
    CHECK_FALSE(b.info(old).forked_from.has_value());
    const auto listed = b.store->workflows({}, 10, 0);
    CHECK(listed->workflows[0].forked_from == ForkedFrom{old, "b"});
  }

  TEST_CASE("a fork may have another input and its own key") {
    WorkflowBench b;
    const WorkflowId old = b.start(four(), R"(,"input":{"x":1},"key":"k")");
    for (const char* kind : {"a", "b", "c", "d"}) b.done(kind, R"({"n":1})");
    const ForkWorkflow again{old, "c", R"({"x":2})", "k-2", {}};
    const auto first = b.one<WorkflowStarted>(again);
    const auto second = b.one<WorkflowStarted>(again);
    CHECK_FALSE(first.duplicate);
    CHECK(second.duplicate);
    CHECK(second.id == first.id);
    CHECK(b.one<WorkflowStarted>(ForkWorkflow{old, "c", {}, "k", {}}).id == old);
    CHECK(b.of("c").args == R"({"b":1,"in":{"x":2}})");
    CHECK(b.info(first.id).input == R"({"x":2})");
    CHECK(b.info(first.id).key == "k-2");
    CHECK(b.started() == "");
  }

  TEST_CASE("FORK-2: a fork never undoes the steps that it kept") {
    WorkflowBench b;
    const WorkflowId old =
        b.start(B::step("a", B::undo("a")) + "," + B::step("b", B::after(R"("a")") + B::undo("b")) +
                "," + B::step("c", B::after(R"("b")")));
    b.done("a");
    b.done("b");
    b.done("c");
    const WorkflowId id = fork(b, old, "b");
    b.done("b");
    b.die("c");
    CHECK(b.started() == "undo-b");
    b.done("undo-b");
    CHECK(b.started() == "");
    CHECK(b.state_of(id) == WorkflowState::undone);
    CHECK(b.states(id) == "a:completed b:undone c:failed");
    CHECK(b.states(old) == "a:completed b:completed c:completed");
    CHECK(b.info(id).undone == 1);
  }

  TEST_CASE(
      "FORK-3: all parents of the chosen step must have completed; the first other is named") {
    WorkflowBench b;
    const WorkflowId old =
        b.start(B::step("a", B::undo("a")) + "," + B::step("b", B::after(R"("a")")) + "," +
                B::step("c", B::after(R"("b")")));
    b.done("a");
    b.done("b");
    b.die("c");
    b.done("undo-a");
    REQUIRE(b.states(old) == "a:undone b:completed c:failed");
    for (const char* step : {"b", "c"}) {
      const Error why = refusal(b, old, step);
      CHECK(why.code == ErrorCode::conflict);
      CHECK(why.field == "step");
      CHECK(why.message.find(R"(fork from "a" instead)") != std::string::npos);
    }
    const WorkflowId id = fork(b, old, "a");
    CHECK(b.states(id) == "a:running b:waiting c:waiting");
    // For a step that was not reached.
    b.die("a");
    REQUIRE(b.state_of(id) == WorkflowState::failed);
    CHECK(refusal(b, id, "c").message.find(R"(fork from "a" instead)") != std::string::npos);
  }

  TEST_CASE("parallel steps that failed start again, with the steps after them") {
    WorkflowBench b;
    const WorkflowId old = b.start(
        B::step("a") + "," + B::step("u", B::undo("u")) + "," + B::step("v", B::after(R"("u")")) +
        "," + B::step("c", B::after(R"("a")")) + "," + B::step("end", B::after(R"("v","c")")));
    for (const char* kind : {"a", "u", "v"}) b.done(kind);
    b.die("c");
    b.done("undo-u");
    REQUIRE(b.states(old) == "a:completed u:undone v:completed c:failed end:skipped");
    const WorkflowId id = fork(b, old, "c");
    CHECK(b.states(id) == "a:completed u:running v:waiting c:running end:waiting");
    CHECK(b.started() == "u c");
    for (const char* kind : {"u", "c", "v", "end"}) b.done(kind);
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("FORK-4: only an ended workflow can be forked, not one that may still be undone") {
    WorkflowBench b;
    const WorkflowId old = b.start(four());
    CHECK(refusal(b, old, "a").code == ErrorCode::conflict);
    CHECK(refusal(b, 999, "a").code == ErrorCode::not_found);
    b.die("a");
    CHECK(refusal(b, old, "x").code == ErrorCode::invalid_argument);
    const WorkflowId parked =
        b.start(B::step("a", B::undo("a")) + "," + B::step("b", B::after(R"("a")")));
    b.done("a");
    b.die("b");
    CHECK(refusal(b, parked, "b").code == ErrorCode::conflict);
    b.die("undo-a");
    REQUIRE(b.state_of(parked) == WorkflowState::parked);
    CHECK(refusal(b, parked, "a").code == ErrorCode::conflict);
    b.one<WorkflowInfo>(RetryWorkflow{parked, "a", true, {}});
    CHECK(b.states(fork(b, parked, "a")) == "a:running b:waiting");
  }

  TEST_CASE("a list is kept as a whole, or started again as a whole") {
    WorkflowBench b;
    const std::string steps =
        R"({"name":"each","each":{"$ref":"input"},"job":{"queue":"q","kind":"each",)"
        R"("args":{"it":{"$ref":"item"}}}},)"
        R"({"name":"more","each":[1],"job":{"queue":"q","kind":"more","args":{"$ref":"item"}},)"
        R"("after":["each"]},)"
        R"({"name":"sum","job":{"queue":"q","kind":"sum","args":{"all":{"$ref":"each"}}}})";
    const WorkflowId old = b.start(steps, R"(,"input":[1,2])");
    for (const ClaimedJob& job : b.claim(2)) b.finish(job, Complete{job.args});
    b.done("more", "9");
    b.done("sum");
    REQUIRE(b.state_of(old) == WorkflowState::completed);
    const WorkflowId id = fork(b, old, "sum", "[7]");
    CHECK(b.states(id) ==
          "each:completed more:completed sum:running each[0]:completed each[1]:completed "
          "more[0]:completed");
    CHECK(b.of("sum").args == R"({"all":[{"it":1},{"it":2}]})");
    b.done("sum");
    CHECK(b.state_of(id) == WorkflowState::completed);
    const WorkflowId anew = fork(b, id, "each", "[7]");  // of a fork
    CHECK(b.states(anew) == "each:running more:waiting sum:waiting each[0]:running");
    const WorkflowId some = fork(b, old, "more");
    CHECK(b.states(some) ==
          "each:completed more:running sum:completed each[0]:completed each[1]:completed "
          "more[0]:running");
    b.done("more");
    CHECK(b.state_of(some) == WorkflowState::completed);
  }

  TEST_CASE("a list with an undone job starts again") {
    WorkflowBench b;
    const WorkflowId old = b.start(R"({"name":"e","each":[1,2],"job":{"queue":"q","kind":"e",)"
                                   R"("max_attempts":1},"undo":{"queue":"q","kind":"un"}},)" +
                                   B::step("x", B::after(R"("e")")));
    for (const ClaimedJob& job : b.claim(2)) b.finish(job, Complete{});
    b.die("x");
    b.done("un");
    b.done("un");
    REQUIRE(b.state_of(old) == WorkflowState::undone);
    CHECK(refusal(b, old, "x").message.find(R"(fork from "e" instead)") != std::string::npos);
    CHECK(b.states(fork(b, old, "e")) == "e:running x:waiting e[0]:running e[1]:running");
  }

  TEST_CASE("a skipped step stays skipped, and the steps after it do not start alone") {
    WorkflowBench b;
    const WorkflowId old =
        b.start(B::step("a") + "," + B::step("no", R"(,"if":{"ref":"a.go"})") + "," +
                B::step("next", B::after(R"("no")")) + "," + B::step("end", B::after(R"("a")")));
    b.done("a", "{}");
    b.done("end");
    REQUIRE(b.states(old) == "a:completed no:skipped next:skipped end:completed");
    const WorkflowId id = fork(b, old, "next");
    CHECK(b.states(id) == "a:completed no:skipped next:skipped end:completed");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).skipped == 2);
    // A fork from an earlier step evaluates the condition again.
    CHECK(b.states(fork(b, old, "a")) == "a:running no:waiting next:waiting end:waiting");
  }

  TEST_CASE("a failed step with on_failure continue is kept as it is") {
    WorkflowBench b;
    const WorkflowId old = b.start(B::step("a", R"(,"on_failure":"continue")") + "," +
                                   B::step("b", B::after(R"("a")")) + "," +
                                   B::step("c", R"(,"on_failure":"continue")"));
    b.die("a");
    b.started();
    b.one<WorkflowInfo>(CancelWorkflow{old, "", {}});
    b.die("b");
    b.die("c");
    REQUIRE(b.states(old) == "a:failed b:failed c:failed");
    const WorkflowId id = fork(b, old, "b");
    CHECK(b.states(id) == "a:failed b:running c:running");  // c ended after the workflow
    CHECK(b.info(id).failed == 1);
    b.done("b");
    b.done("c");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("kept signals and timers are not repeated; those after the chosen step are") {
    WorkflowBench b;
    const WorkflowId old =
        b.start(R"({"name":"one","signal":"go"},{"name":"two","signal":"go","after":["one"]},)"
                R"({"name":"nap","sleep":"1m","after":["two"]})",
                R"(,"deadline":"1h")");
    for (const char* payload : {"1", "2"}) b.one<Done>(SignalWorkflow{old, "go", "", payload, {}});
    b.advance(minutes(1));
    b.wake();
    REQUIRE(b.state_of(old) == WorkflowState::completed);
    b.advance(minutes(30));
    const WorkflowId id = fork(b, old, "two");
    CHECK(b.states(id) == "one:completed two:running nap:waiting");
    CHECK(b.step_of(id, "one").result == "1");
    CHECK(b.info(id).deadline_at == b.wall() + hours(1));
    b.one<Done>(SignalWorkflow{id, "go", "", "3", {}});
    CHECK(b.store->agenda().next_workflow == b.wall() + minutes(1));
    b.advance(minutes(1));
    b.wake();
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.step_of(id, "two").result == "3");
  }

  TEST_CASE("without access to its queues a workflow is not found, or its jobs are forbidden") {
    WorkflowBench b;
    const WorkflowId old = b.start(B::step("a"));
    b.done("a");
    const auto within = [](const char* scopes) {
      return Within{std::make_shared<const Scopes>(*Scopes::parse(scopes)), Verb::admin};
    };
    CHECK(refusal(b, old, "a", within("enqueue admin=other")).code == ErrorCode::not_found);
    CHECK(refusal(b, old, "a", within("enqueue=other admin")).code == ErrorCode::forbidden);
    CHECK(b.stats().enqueued == 1);
    b.one<WorkflowStarted>(ForkWorkflow{old, "a", {}, "", within("enqueue=q admin=q")});
    CHECK(b.started() == "a");
  }

  TEST_CASE("a workflow of many steps is forked in one batch, and the fork outlives its original") {
    StoreOptions options;
    options.retention_completed = hours(1);
    WorkflowBench b(options);
    std::string list = "[0";
    for (int i = 1; i < 1000; ++i) list += "," + std::to_string(i);
    const WorkflowId old =
        b.start(R"({"name":"e","each":)" + list + R"(],"job":{"queue":"q","kind":"e"}},)" +
                B::step("join", B::after(R"("e")")));
    Finish all{.worker = "w1", .results = {}};
    for (const ClaimedJob& job : b.claim(1000))
      all.results.push_back({job.id, job.token, Complete{"1"}});
    b.one<FinishResult>(std::move(all));
    b.done("join");
    b.advance(minutes(59));
    const WorkflowId id = fork(b, old, "join");
    CHECK(b.info(id).completed == 1001);
    b.advance(minutes(1));
    for (int i = 0; i < 5; ++i) b.one<StepResult>(PruneJobs{2, {}});
    const ErrorCode half_gone = refusal(b, old, "join").code;
    CHECK((half_gone == ErrorCode::expired || half_gone == ErrorCode::not_found));
    for (int i = 0; i < 10; ++i) b.prune();
    CHECK(b.store->workflow(old).error().code == ErrorCode::not_found);
    b.done("join");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).forked_from->id == old);
  }
}

}  // namespace
}  // namespace mainspring::conformance
