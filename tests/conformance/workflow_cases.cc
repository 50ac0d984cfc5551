// What workflows promise: each step starts once, when its parents have ended, with the values that
// it refers to.
#include "conformance/workflow_bench.h"
#include "workflow/step_rows.h"

namespace mainspring::conformance {
namespace {

TEST_SUITE("store: workflows") {
  TEST_CASE("the next step of a chain starts in the transaction that ends a step") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") + "," + b.step("b", b.after(R"("a")")), R"(,"result":{"$ref":"b.n"})");
    CHECK(b.effects().workflows.empty());
    CHECK(b.became_available("q"));
    CHECK(b.started() == "a");
    CHECK(b.states(id) == "a:running b:waiting");
    b.done("a");
    CHECK(b.became_available("q"));
    CHECK(b.states(id) == "a:completed b:running");
    CHECK(b.started() == "b");
    b.done("b", R"({"n":7})");
    CHECK(b.effects().workflows == std::vector<WorkflowId>{id});
    const WorkflowInfo info = b.info(id);
    CHECK(info.state == WorkflowState::completed);
    CHECK(info.result == "7");
    CHECK(info.completed == 2);
    CHECK(info.running == 0);
    CHECK(info.finished_at == b.wall());
    CHECK(b.started() == "");
  }

  TEST_CASE("WF-3: a join starts once, when the last of its parents ends") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a") + "," + b.step("b") + "," + b.step("c") + "," +
                                  b.step("join", b.after(R"("a","b","c")")));
    CHECK(b.started() == "a b c");
    b.done("b");
    b.done("a");
    CHECK(b.started() == "");
    b.done("c");
    CHECK(b.started() == "join");
    b.done("join");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.stats().enqueued == 4);
  }

  TEST_CASE("WF-3: parents that end in one batch start their join once") {
    WorkflowBench b;
    b.start(b.step("a") + "," + b.step("b") + "," + b.step("join", b.after(R"("a","b")")));
    CHECK(b.started() == "a b");
    Finish both{.worker = "w1", .results = {}};
    for (const char* kind : {"a", "b"})
      both.results.push_back({b.of(kind).id, b.of(kind).token, Complete{}});
    b.one<FinishResult>(both);
    CHECK(b.started() == "join");
    CHECK(b.stats().enqueued == 3);
  }

  TEST_CASE(
      "a join starts when its parents end earlier in the batch, and can be claimed later in it") {
    WorkflowBench b;
    b.start(b.step("a") + "," + b.step("b", b.after(R"("a")")));
    CHECK(b.started() == "a");
    const Operation done =
        Finish{.worker = "w1", .results = {{b.of("a").id, b.of("a").token, Complete{}}}};
    const Operation claim = Claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 5};
    const auto results = b.apply({claim, done, claim});
    CHECK(std::get<ClaimResult>(results[0]).jobs.empty());
    CHECK(std::get<ClaimResult>(results[2]).jobs.size() == 1);
  }

  TEST_CASE("args can refer to the input and to saved results of earlier steps") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") + R"(,{"name":"b","job":{"queue":"q","kind":"b","args":)"
                              R"({"price":{"$ref":"a.price"},"who":{"$ref":"input.who"},)"
                              R"("id":{"$ref":"workflow.id"},"none":{"$ref":"a.x","default":0}}}})",
                R"(,"input":{"who":"Ann"})");
    b.done("a", R"({"price":12.50})");
    CHECK(b.of("b").args ==
          R"({"price":12.50,"who":"Ann","id":)" + std::to_string(id) + R"(,"none":0})");
    CHECK(b.of("b").correlation_id == "workflow-" + std::to_string(id));
    CHECK(b.step_of(id, "a").result == R"({"price":12.50})");
    b.reopen();
    CHECK(b.step_of(id, "a").result == R"({"price":12.50})");
  }

  TEST_CASE("a reference to a missing value fails its step and is named") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") +
                R"(,{"name":"b","job":{"queue":"q","kind":"b","args":{"x":{"$ref":"a.x"}}}})");
    b.done("a", R"({"y":1})");
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.step_of(id, "b").state == StepState::failed);
    CHECK(b.step_of(id, "b").reason.find("a.x") != std::string::npos);
    CHECK(b.info(id).reason.find("step b") != std::string::npos);
  }

  TEST_CASE(
      "a step with a false condition is skipped, and so are steps with only skipped parents") {
    WorkflowBench b;
    const WorkflowId id = b.start(
        b.step("a") + "," + b.step("yes", R"(,"if":{"ref":"a.n","equals":1})") + "," +
        b.step("no", R"(,"if":{"ref":"a.n","equals":1,"negate":true})") + "," +
        b.step("next", b.after(R"("no")")) + "," + b.step("both", b.after(R"("yes","no")")));
    b.done("a", R"({"n":1.0})");
    CHECK(b.started() == "yes");
    CHECK(b.states(id) == "a:completed yes:running no:skipped next:skipped both:waiting");
    b.done("yes");
    CHECK(b.started() == "both");
    b.done("both");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).skipped == 2);
  }

  TEST_CASE("a list makes a job for each element, and collects their results in order") {
    WorkflowBench b;
    const WorkflowId id = b.start(
        R"({"name":"list","job":{"queue":"q","kind":"list"}},)"
        R"({"name":"each","each":{"$ref":"list.items"},"job":{"queue":"q","kind":"each",)"
        R"("args":{"it":{"$ref":"item.n"}}}},)"
        R"({"name":"sum","job":{"queue":"q","kind":"sum","args":{"all":{"$ref":"each"}}}})");
    b.done("list", R"({"items":[{"n":1},{"n":2},{"n":3}]})");
    const auto jobs = b.claim(10);
    REQUIRE(jobs.size() == 3);
    CHECK(jobs[1].args == R"({"it":2})");
    CHECK(
        b.states(id) ==
        "list:completed each:running sum:waiting each[0]:running each[1]:running each[2]:running");
    CHECK(b.finish(jobs[2], Complete{"30"}) == FinishStatus::ok);
    CHECK(b.finish(jobs[0], Complete{"10"}) == FinishStatus::ok);
    CHECK(b.started() == "");
    CHECK(b.finish(jobs[1], Complete{""}) == FinishStatus::ok);
    CHECK(b.of("sum").args == R"({"all":[10,null,30]})");
    b.done("sum");
    CHECK(b.state_of(id) == WorkflowState::completed);
    CHECK(b.info(id).steps == 6);
  }

  TEST_CASE("an empty list is done at once; a value that is no list fails") {
    WorkflowBench b;
    const std::string each =
        R"({"name":"each","each":{"$ref":"input"},"job":{"queue":"q","kind":"each"}},)" +
        b.step("then", b.after(R"("each")"));
    b.start(each, R"(,"input":[])");
    CHECK(b.started() == "then");
    const WorkflowId other = b.start(each, R"(,"input":{"a":1})");
    CHECK(b.state_of(other) == WorkflowState::failed);
    CHECK(b.info(other).reason.find("not an array") != std::string::npos);
  }

  TEST_CASE("a timer starts the steps after it when it is due, also after a restart") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"pause","sleep":"10m"},)" + b.step("then", b.after(R"("pause")")));
    CHECK(b.store->agenda().next_workflow == b.wall() + minutes(10));
    b.advance(minutes(9));
    CHECK(b.wake() == 0);
    b.reopen();
    CHECK(b.store->agenda().next_workflow == b.wall() + minutes(1));
    b.advance(minutes(1));
    CHECK(b.wake() == 1);
    CHECK(b.started() == "then");
    CHECK(b.store->agenda().next_workflow == WallTime::never());
    b.done("then");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("signals are taken in order of arrival, before or after their step starts") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"one","signal":"go"},{"name":"two","signal":"go","after":["one"]},)"
                R"({"name":"no","signal":"stop"})");
    const auto send = [&](const char* name, const char* payload, const char* signal_id = "") {
      b.one<Done>(SignalWorkflow{id, name, signal_id, payload, {}});
    };
    send("stop", "0");
    CHECK(b.states(id) == "one:running two:waiting no:completed");
    send("go", "1", "s-1");
    send("go", "1", "s-1");  // repeated: no effect
    CHECK(b.states(id) == "one:completed two:running no:completed");
    CHECK(b.step_of(id, "one").result == "1");
    const WorkflowId early =
        b.start(b.step("a") + R"(,{"name":"one","signal":"go","after":["a"]},)"
                              R"({"name":"two","signal":"go","after":["one"]})");
    for (const char* payload : {"10", "20", "30"})
      b.one<Done>(SignalWorkflow{early, "go", "", payload, {}});
    b.done("a");
    CHECK(b.step_of(early, "one").result == "10");
    CHECK(b.step_of(early, "two").result == "20");
    CHECK(b.state_of(early) == WorkflowState::completed);
    CHECK(b.refused(SignalWorkflow{early, "go", "", "", {}}) == ErrorCode::conflict);
    CHECK(b.refused(SignalWorkflow{999, "go", "", "", {}}) == ErrorCode::not_found);
  }

  TEST_CASE("one workflow for a name and key") {
    WorkflowBench b;
    const WorkflowSpec spec = b.spec(b.step("a"), R"(,"key":"order-1")");
    const auto first = b.one<WorkflowStarted>(StartWorkflow{spec});
    const auto again = b.one<WorkflowStarted>(StartWorkflow{spec});
    CHECK_FALSE(first.duplicate);
    CHECK(again.duplicate);
    CHECK(again.id == first.id);
    CHECK(b.stats().enqueued == 1);
    WorkflowSpec other = spec;
    other.key = "order-2";
    CHECK(b.one<WorkflowStarted>(StartWorkflow{other}).id == first.id + 1);
  }

  TEST_CASE("the key of a workflow is remembered for its window, also when it has been removed") {
    StoreOptions options;
    options.retention_completed = hours(1);
    WorkflowBench b(options);
    const auto start = [&b](const std::string& window) {
      return b.one<WorkflowStarted>(StartWorkflow{b.spec(b.step("a"), R"(,"key":"k")" + window)});
    };
    const WorkflowId first = start(R"(,"key_for":"3h")").id;
    b.advance(hours(10));
    CHECK(start("").duplicate);
    b.done("a");
    b.advance(hours(2));
    b.prune();
    CHECK(b.store->workflow(first).error().code == ErrorCode::not_found);
    CHECK(b.store->workflow_steps(first, 0, 10).error().code == ErrorCode::not_found);
    CHECK(b.store->workflows({}, 10, 0)->workflows.empty());
    CHECK(b.refused(CancelWorkflow{first, "", {}}) == ErrorCode::not_found);
    b.reopen();
    const auto again = start("");
    CHECK(again.duplicate);
    CHECK(again.id == first);
    b.advance(hours(1));
    CHECK(b.store->agenda().next_prune <= b.wall());
    b.prune();
    CHECK(b.store->agenda().next_prune == WallTime::never());
    const auto second = start(R"(,"key_for":"0s")");
    CHECK_FALSE(second.duplicate);
    CHECK(start("").duplicate);
    b.done("a");
    CHECK_FALSE(start("").duplicate);  // without a window the key is free at the end
    b.done("a");
    b.advance(hours(24 * 29));
    b.prune();
    CHECK(start("").duplicate);  // 30 days
    CHECK(b.stats().enqueued == 3);
  }

  TEST_CASE("callers that cannot use each other's queues have workflow keys of their own") {
    WorkflowBench b;
    const auto start = [&b](const std::string& queue, const std::string& scopes) {
      const WorkflowSpec spec =
          b.spec(R"({"name":"a","job":{"queue":")" + queue + R"(","kind":"a"}})", R"(,"key":"1")");
      const auto of = std::make_shared<const Scopes>(*Scopes::parse(scopes));
      return b.one<WorkflowStarted>(StartWorkflow{spec, nullptr, {of, Verb::enqueue}});
    };
    const auto mine = start("mine", "enqueue=mine");
    const auto theirs = start("theirs", "enqueue=theirs");
    CHECK_FALSE(theirs.duplicate);
    CHECK(theirs.id != mine.id);
    CHECK(start("mine", "enqueue=mine").id == mine.id);
    CHECK(start("theirs", "enqueue=theirs read").id == theirs.id);
    CHECK(start("more", "enqueue").id == theirs.id);  // sees both
  }

  TEST_CASE("args that are too large with the results they refer to park the workflow") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"e","each":[1,2],"job":{"queue":"q","kind":"e"},)"
                R"("undo":{"queue":"q","kind":"u"}},)"
                R"({"name":"sum","job":{"queue":"q","kind":"sum","args":{"all":{"$ref":"e"}}}},)"
                R"({"name":"list","job":{"queue":"q","kind":"list",)"
                R"("args":{"$ref":"e","by_reference":true}}})");
    const std::string half = "\"" + std::string(kMaxArgsBytes / 2, 'x') + "\"";
    const auto jobs = b.claim(2);
    REQUIRE(jobs.size() == 2);
    CHECK(b.finish(jobs[0], Complete{half}) == FinishStatus::ok);
    CHECK(b.info(id).reason == "");
    CHECK(b.finish(jobs[1], Complete{half}) == FinishStatus::ok);
    CHECK(b.state_of(id) == WorkflowState::parked);
    CHECK(b.info(id).reason ==
          "step sum: its args: is over 1048576 bytes with what its references stand for");
    CHECK(b.step_of(id, "e").state == StepState::completed);
    CHECK(b.info(id).undone == 0);
    // What takes the results by reference is not affected.
    b.one<WorkflowInfo>(
        RetryWorkflow{.id = id, .step = "sum", .by_hand = true, .within = {}, .result = "7"});
    CHECK(b.started() == "list");
    CHECK(b.of("list").args ==
          R"({"$result":{"workflow":)" + std::to_string(id) + R"(,"step":"e"}})");
    b.done("list");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("the first result that makes a later step impossible is reported") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"e","each":[1,2,3],"job":{"queue":"q","kind":"e"}},)"
                R"({"name":"sum","job":{"queue":"q","kind":"sum","args":{"all":{"$ref":"e"}}}})");
    const std::string half = "\"" + std::string(kMaxArgsBytes / 2, 'x') + "\"";
    const auto jobs = b.claim(3);
    for (int i = 0; i < 2; ++i) b.finish(jobs[static_cast<std::size_t>(i)], Complete{half});
    CHECK(b.state_of(id) == WorkflowState::running);
    CHECK(b.info(id).reason ==
          "step sum will not start: the results of step e are over 1048576 bytes together");
  }

  TEST_CASE("the first result of a step that makes a later one impossible is reported") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a") + "," + b.step("b") + "," + b.step("c") + "," +
                R"({"name":"sum","job":{"queue":"q","kind":"sum","args":)"
                R"([{"$ref":"a"},{"$ref":"b"},{"$ref":"c","by_reference":true}]}})");
    const std::string half = "\"" + std::string(kMaxArgsBytes / 2, 'x') + "\"";
    const auto jobs = b.claim(3);
    REQUIRE(jobs.size() == 3);
    for (const auto& job : jobs) {
      CHECK(b.info(id).reason == "");
      if (job.kind != "b") b.finish(job, Complete{half});  // "c" is passed by reference
    }
    b.reopen();
    for (const auto& job : jobs) {
      if (job.kind == "b") b.finish(job, Complete{half});
    }
    CHECK(b.info(id).undone == 0);
    CHECK(b.state_of(id) == WorkflowState::parked);
    CHECK(b.info(id).reason ==
          "step sum: its args: is over 1048576 bytes with what its references stand for");
  }

  TEST_CASE("a step whose results cannot fit is reported before its last parent ends") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a") + "," + b.step("b") + "," + b.step("c") + "," +
                                  R"({"name":"sum","job":{"queue":"q","kind":"sum","args":)"
                                  R"([{"$ref":"a"},{"$ref":"b"},{"$ref":"c"}]}})");
    const std::string half = "\"" + std::string(kMaxArgsBytes / 2, 'x') + "\"";
    const auto jobs = b.claim(3);
    b.finish(jobs[0], Complete{half});
    CHECK(b.info(id).reason == "");
    b.reopen();
    b.finish(jobs[1], Complete{half});
    CHECK(b.state_of(id) == WorkflowState::running);
    CHECK(b.info(id).reason ==
          "step sum will not start: the results that it refers to are over 1048576 bytes together");
  }

  TEST_CASE("a paused workflow starts no step; held steps start when it is resumed") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a") + "," + b.step("b", b.after(R"("a")")));
    b.started();
    CHECK(b.one<WorkflowInfo>(PauseWorkflow{id, true, {}}).paused);
    b.done("a");
    CHECK(b.started() == "");
    b.reopen();
    CHECK(b.info(id).paused);
    CHECK_FALSE(b.one<WorkflowInfo>(PauseWorkflow{id, false, {}}).paused);
    CHECK(b.started() == "b");
  }

  TEST_CASE("a step with a live job shows its state, attempt, worker and deadline") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(R"({"name":"a","deadline":"90s","job":{"queue":"q","kind":"a","timeout":"1m",)"
                R"("max_attempts":3},"undo":{"queue":"q","kind":"u","timeout":"none"}},)" +
                b.step("b", b.after(R"("a")")) + R"(,{"name":"s","signal":"go","deadline":"1h"})");
    const auto check = [&](std::optional<JobState> state, int attempt, const std::string& worker,
                           std::optional<WallTime> by) {
      const WorkflowStep a = b.step_of(id, "a");
      CHECK(a.job_state == state);
      CHECK(a.attempt == attempt);
      CHECK(a.max_attempts == (state ? (a.undo_job == 0 ? 3 : 20) : 0));
      CHECK(a.worker == worker);
      CHECK(a.complete_by == by);
    };
    const WallTime begin = b.wall();
    check(JobState::available, 0, "", begin + seconds(90));
    CHECK(b.step_of(id, "s").complete_by == begin + hours(1));
    CHECK_FALSE(b.step_of(id, "s").job_state.has_value());
    CHECK_FALSE(b.step_of(id, "b").complete_by.has_value());
    b.of("a");
    check(JobState::running, 1, "w1", begin + seconds(60));
    b.advance(seconds(10));
    b.end("a", Retry{.error = "no", .after = seconds(30)});
    check(JobState::retryable, 1, "", begin + seconds(90));
    b.advance(seconds(30));
    CHECK(b.move_due() == 1);
    b.of("a");
    check(JobState::running, 2, "w1", begin + seconds(90));  // the deadline comes first now
    b.reopen();
    b.done("a");
    check(std::nullopt, 0, "", std::nullopt);
    b.die("b");
    check(JobState::available, 0, "", std::nullopt);
    b.of("u");
    check(JobState::running, 1, "w1", std::nullopt);
    b.done("u");
    check(std::nullopt, 0, "", std::nullopt);
  }

  TEST_CASE("workflows of any size are run, read and forked alike") {
    const int few = static_cast<int>(workflow::kMaxPackedSteps);
    struct Size {
      int steps;
      std::size_t input, args, asked;
    };
    // At the limits of packing: the number of steps, the definitions, the input, the result.
    for (const auto& [count, input, args, asked] :
         std::initializer_list<Size>{{few, 10, 10, 10},
                                     {few + 1, 10, 10, 10},
                                     {few, workflow::kMaxPackedInput + 10, 10, 10},
                                     {few, 10, workflow::kMaxPackedText / 8, 10},
                                     {few, 10, 10, workflow::kMaxPackedText}}) {
      CAPTURE(count);
      CAPTURE(input);
      CAPTURE(args);
      CAPTURE(asked);
      WorkflowBench b;
      const auto name = [](int i) { return "s" + std::to_string(i); };
      std::string steps = b.step("s0");
      for (int i = 1; i + 1 < count; ++i) {
        steps += R"(,{"name":")" + name(i) + R"(","job":{"queue":"q","kind":")" + name(i) +
                 R"(","args":")" + std::string(args, 'a') + R"("})" +
                 b.after("\"" + name(i - 1) + "\"") + "}";
      }
      steps += R"(,{"name":"last","job":{"queue":"r","kind":"last","args":)"
               R"({"in":{"$ref":"input.x"},"of":{"$ref":"s0"}}})" +
               b.after("\"" + name(count - 2) + "\"") + "}";
      const std::string given = R"({"x":1,"y":")" + std::string(input, 'y') + R"("})";
      const std::string more = std::string(asked, 'z');
      const WorkflowId id = b.start(
          steps, R"(,"result":[{"$ref":"last"},{"$ref":"s0"},")" + more + R"("],"input":)" + given);
      const auto run_from = [&](WorkflowId of, int first) {
        for (int i = first; i + 1 < count; ++i)
          b.done(name(i), R"({"n":)" + std::to_string(i) + "}");
        const auto jobs = b.claim(2, {"r"});
        REQUIRE(jobs.size() == 1);
        CHECK(jobs[0].args == R"({"in":1,"of":{"n":0}})");
        b.finish(jobs[0], Complete{"9"});
        CHECK(b.info(of).result == R"([9,{"n":0},")" + more + R"("])");
        CHECK(b.info(of).input == given);
        CHECK(b.info(of).queues == std::vector<std::string>{"q", "r"});
        CHECK(b.info(of).completed == count);
      };
      run_from(id, 0);
      const auto fork = b.one<WorkflowStarted>(ForkWorkflow{.id = id, .step = name(2)}).id;
      run_from(fork, 2);
      CHECK(b.store->verify()->problems.empty());
    }
  }

  TEST_CASE("steps are read in pages, jobs of a list after the other steps") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a") + "," +
                                  R"({"name":"e","each":[1,2,3],"job":{"queue":"q","kind":"e"}},)" +
                                  b.step("b", b.after(R"("e")")));
    for (const int behind : {6, 7, INT32_MAX - 1, INT32_MAX})
      CHECK(b.store->workflow_steps(id, behind, 3)->steps.empty());
    for (const int limit : {1, 2, 3, 4, 5, 6, 7}) {
      std::string all;
      int after = 0, pages = 0;
      for (bool more = true; more; ++pages) {
        const auto page = b.store->workflow_steps(id, after, limit);
        REQUIRE(page.has_value());
        for (const WorkflowStep& step : page->steps) all += step.name + " ";
        more = page->next.has_value();
        if (more) after = *page->next;
      }
      CHECK(all == "a e b e[0] e[1] e[2] ");
      CHECK(pages == (6 + limit - 1) / limit);
    }
  }

  TEST_CASE("a reason may contain any bytes") {
    WorkflowBench b;
    const std::string said("core\0 \xff\xfe \"states\":[ dumped", 27);
    const WorkflowId id = b.start(b.step("a", R"(,"on_failure":"continue")") + "," + b.step("b") +
                                  "," + b.step("c", b.after(R"("a","b")")));
    b.end("a", Dead{.reason = said, .description = said});
    b.reopen();
    CHECK(b.step_of(id, "a").reason.find("core? ") != std::string::npos);
    CHECK(b.states(id) == "a:failed b:running c:waiting");
    b.end("b", Dead{.reason = said, .description = said});
    b.reopen();
    CHECK(b.states(id) == "a:failed b:failed c:skipped");
    CHECK(b.info(id).reason.find("core? ") != std::string::npos);
    const WorkflowId other = b.start(b.step("x") + "," + b.step("y"));
    b.started();
    b.one<WorkflowInfo>(CancelWorkflow{.id = other, .reason = said});
    b.reopen();
    CHECK(b.state_of(other) != WorkflowState::running);
    CHECK(b.info(other).reason.find("core? ") != std::string::npos);
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("a workflow can continue without a failed step") {
    WorkflowBench b;
    const WorkflowId id =
        b.start(b.step("a", R"(,"on_failure":"continue")") + "," + b.step("b", b.after(R"("a")")));
    b.die("a");
    CHECK(b.started() == "b");
    b.done("b");
    CHECK(b.states(id) == "a:failed b:completed");
    CHECK(b.state_of(id) == WorkflowState::completed);
  }

  TEST_CASE("a job of a step cannot be retried by hand, and its end counts once") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a"));
    const ClaimedJob job = b.of("a");
    b.die("a");
    CHECK(b.state_of(id) == WorkflowState::failed);
    CHECK(b.refused(RetryJob{job.id}) == ErrorCode::conflict);
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 0);
    CHECK(b.state(job.id) == JobState::dead);
  }

  TEST_CASE("a terminal workflow is pruned when its retention has ended") {
    StoreOptions options;
    options.retention_completed = hours(1);
    options.retention_dead = hours(5);
    WorkflowBench b(options);
    const WorkflowId good = b.start(b.step("a"), R"(,"key":"k")");
    b.done("a");
    const WorkflowId bad = b.start(b.step("a"));
    b.die("a");
    b.advance(hours(1));
    b.prune();
    CHECK(b.store->workflow(good).error().code == ErrorCode::not_found);
    CHECK(b.state_of(bad) == WorkflowState::failed);
    b.start(b.step("a"));
    b.done("a");
    b.advance(hours(4));
    CHECK(b.store->agenda().next_prune <= b.wall());
    b.prune();
    CHECK(b.store->workflow(bad).error().code == ErrorCode::not_found);
  }

  TEST_CASE("lists of workflows filter by name and state, newest first, in pages") {
    WorkflowBench b;
    std::vector<WorkflowId> all;
    for (int i = 0; i < 5; ++i) all.push_back(b.start(b.step("a")));
    b.die("a");
    const auto page = b.store->workflows({}, 2, 0);
    REQUIRE(page.has_value());
    REQUIRE(page->workflows.size() == 2);
    CHECK(page->workflows[0].id == all[4]);
    CHECK(page->next == all[3]);
    const auto rest = b.store->workflows({}, 10, *page->next);
    CHECK(rest->workflows.size() == 3);
    CHECK_FALSE(rest->next.has_value());
    CHECK(b.store->workflows({.name = "x", .state = {}}, 10, 0)->workflows.empty());
    CHECK(b.store->workflows({.name = "w", .state = WorkflowState::running}, 10, 0)
              ->workflows.size() == 4);
  }

  TEST_CASE("a thousand steps in a row and a thousand in parallel end") {
    WorkflowBench b;
    std::string steps = b.step("s0");
    for (int i = 1; i < 300; ++i)
      steps += "," + b.step("s" + std::to_string(i), b.after("\"s" + std::to_string(i - 1) + "\""));
    const WorkflowId chain = b.start(steps);
    std::string list = "[0";
    for (int i = 1; i < 1000; ++i) list += "," + std::to_string(i);
    const WorkflowId wide =
        b.start(R"({"name":"e","each":)" + list + R"(],"job":{"queue":"q","kind":"e"}},)" +
                b.step("join", b.after(R"("e")")));
    for (auto jobs = b.claim(1000); !jobs.empty(); jobs = b.claim(1000)) {
      Finish all{.worker = "w1", .results = {}};
      for (const ClaimedJob& job : jobs) all.results.push_back({job.id, job.token, Complete{}});
      b.one<FinishResult>(std::move(all));
    }
    CHECK(b.state_of(chain) == WorkflowState::completed);
    CHECK(b.state_of(wide) == WorkflowState::completed);
    CHECK(b.info(wide).completed == 1002);
  }

  TEST_CASE("a pruned workflow is gone for later operations of the batch") {
    WorkflowBench b;
    const WorkflowId id = b.start(b.step("a"));
    b.done("a");
    b.advance(std::chrono::hours(24 * 30));
    const auto results =
        b.apply({PauseWorkflow{id, true, {}}, PruneJobs{1000, {}}, PauseWorkflow{id, true, {}},
                 RetryWorkflow{.id = id}, CancelWorkflow{id, "", {}}});
    REQUIRE(results.size() == 5);
    for (const std::size_t i : {0U, 2U, 3U, 4U}) {
      const auto* error = std::get_if<Error>(&results[i]);
      REQUIRE(error != nullptr);
      CHECK(error->code == (i == 0 ? ErrorCode::conflict : ErrorCode::not_found));
    }
  }
}

}  // namespace
}  // namespace mainspring::conformance
