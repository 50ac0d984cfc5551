// The embedded engine, from opening a directory to the results of typed handlers.
#include "mainspring/engine.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <latch>
#include <stdexcept>

namespace {

using namespace mainspring;
using namespace std::chrono_literals;

struct Add {
  static constexpr std::string_view kind = "add";
  static constexpr std::string_view queue = "sums";
  int a = 0;
  int b = 0;
};
BOOST_DESCRIBE_STRUCT(Add, (), (a, b))

struct Step {
  int pages = 0;
};
BOOST_DESCRIBE_STRUCT(Step, (), (pages))

struct Sum {
  int sum = 0;
};
BOOST_DESCRIBE_STRUCT(Sum, (), (sum))

// A separate directory, and a log that must stay free of errors.
struct EngineFolder {
  std::filesystem::path path;
  EngineFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "engine-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~EngineFolder() { std::filesystem::remove_all(path); }
  Result<Engine> open(EngineOptions options = {}) const {
    return Engine::open((path / "jobs").string(), std::move(options));
  }
};

EngineOptions quiet() {
  EngineOptions options;
  options.log = [](std::string_view, std::string_view) {};
  return options;
}

RetryPolicy at_once() {
  RetryPolicy policy;
  policy.first_delay = 0s;
  return policy;
}

}  // namespace

TEST_CASE("a type without a queue has the queue of its name, for its jobs and its handler") {
  CHECK(reflect::queue_of<Step>("") == "step");
  CHECK(reflect::queue_of<Step>("other") == "other");
  CHECK(reflect::queue_of<Add>("") == "sums");
  CHECK(reflect::queue_of<std::pair<Step, Add>>("").find_first_of("<>,: ") == std::string::npos);
}

TEST_CASE("a typed job is run and its result read") {
  const EngineFolder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  engine->on<Add>([](const Add& add) { return Sum{add.a + add.b}; });
  REQUIRE(engine->start().has_value());
  const auto job = engine->enqueue(Add{.a = 2, .b = 3});
  REQUIRE(job.has_value());
  const auto ended = engine->wait(job->id, 60s);
  REQUIRE(ended.has_value());
  CHECK(ended->state == JobState::completed);
  CHECK(ended->queue == "sums");
  CHECK(ended->kind == "add");
  CHECK(Engine::result<Sum>(*ended)->sum == 5);
  engine->stop();
  engine->stop();
  CHECK(engine->stats().completed == 1);
}

TEST_CASE("handlers may return an outcome or an error, or throw") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  engine->on<Add>(
      [](const Add& add, Context& context) -> Result<Outcome> {
        switch (add.a) {
          case 1:
            return Outcome(Complete{"[1]"});
          case 2:
            return Outcome(Dead{"bad", "very bad"});
          case 3:
            return Outcome(CancelJob{"no need"});
          default:
            break;
        }
        if (context.job().attempt < 3) throw std::runtime_error("not yet");
        return Error{.message = "the end"};
      },
      {.retry = at_once()});
  REQUIRE(engine->start().has_value());
  std::vector<Add> jobs = {{.a = 1}, {.a = 2}, {.a = 3}, {.a = 4}};
  const auto made = engine->enqueue_many(jobs, {.max_attempts = 3});
  REQUIRE(made.has_value());
  const auto end = [&](std::size_t i) { return *engine->wait(made->at(i).id, 60s); };
  CHECK(end(0).result == "[1]");
  CHECK(end(1).state == JobState::dead);
  CHECK(end(1).reason == "bad");
  CHECK(end(2).state == JobState::cancelled);
  const Job last = end(3);
  CHECK(last.state == JobState::dead);
  REQUIRE(last.errors.size() == 3);
  CHECK(last.errors[0].message == "not yet");
  CHECK(last.errors[2].message == "the end");
  const auto no_result = Engine::result<Sum>(last);
  CHECK(no_result.error().code == ErrorCode::conflict);
  CHECK(no_result.error().message.find("dead") != std::string::npos);
}

TEST_CASE("args that are not a T fail the attempt, with the place of the error") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  engine->on<Add>([](const Add&) {});
  REQUIRE(engine->start().has_value());
  NewJob job{.queue = "sums", .kind = "add", .args = "{\"a\":\"two\"}", .max_attempts = 1};
  const auto made = engine->enqueue(std::move(job));
  const auto ended = engine->wait(made->id, 60s);
  CHECK(ended->state == JobState::dead);
  CHECK(ended->errors.at(0).message.find("args: a: must be an integer") == 0);
}

TEST_CASE("an attempt continues from the checkpoint of the previous attempt") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  std::vector<int> started_at;
  engine->on<Step>(
      [&](const Step& step, Context& context) {
        int page = context.job().checkpoint.empty() ? 0 : *from_json<int>(context.job().checkpoint);
        started_at.push_back(page);
        for (; page < step.pages; ++page) {
          if (page == 3 && context.job().attempt == 1) throw std::runtime_error("power cut");
          (void)context.checkpoint(to_json(page + 1));
          context.progress(static_cast<double>(page + 1) / step.pages, "pages");
        }
        (void)context.flush();
        return page;
      },
      {.retry = at_once()});
  REQUIRE(engine->start().has_value());
  const auto made = engine->enqueue(Step{.pages = 5});
  const auto ended = engine->wait(made->id, 60s);
  CHECK(ended->state == JobState::completed);
  CHECK(ended->progress == Progress{1, "pages"});
  CHECK(started_at == std::vector<int>{0, 3});
  CHECK(ended->attempt == 2);
}

TEST_CASE("a running job can be cancelled, and its handler is notified") {
  const EngineFolder folder;
  EngineOptions options = quiet();
  options.worker.slots = 1;  // no claim waits that could report the cancel: a renewal does
  auto engine = folder.open(options);
  std::latch running(1), cancelled(1);
  engine->on<Step>([&](const Step&, Context& context) {
    running.count_down();
    cancelled.wait();
    context.progress(0.5);  // sent with a renewal
    std::latch told(1);
    std::stop_callback wake(context.stop_token(), [&] { told.count_down(); });
    told.wait();
    CHECK(context.stop_reason() == StopReason::cancelled);
    throw std::runtime_error("interrupted");
  });
  REQUIRE(engine->start().has_value());
  const auto made = engine->enqueue(Step{});
  running.wait();
  CHECK(*engine->cancel(made->id, "not needed") == JobState::running);
  cancelled.count_down();
  const auto ended = engine->wait(made->id, 60s);
  CHECK(ended->state == JobState::cancelled);
  CHECK(ended->reason == "not needed");
  CHECK(engine->cancel(made->id).has_value());
  CHECK(engine->cancel(4711).error().code == ErrorCode::not_found);
}

TEST_CASE("jobs survive the engine, and a stopped handler's attempt is not counted") {
  const EngineFolder folder;
  JobId id = 0;
  {
    EngineOptions options = quiet();
    options.worker.graceful_stop = 10ms;
    auto engine = folder.open(options);
    std::latch running(1);
    engine->on<Step>([&](const Step&, Context& context) {
      running.count_down();
      std::latch told(1);
      std::stop_callback wake(context.stop_token(), [&] { told.count_down(); });
      told.wait();
      throw std::runtime_error("interrupted");
    });
    REQUIRE(engine->start().has_value());
    id = engine->enqueue(Step{.pages = 7})->id;
    running.wait();
  }
  auto engine = folder.open(quiet());
  REQUIRE(engine.has_value());
  CHECK(engine->get(id)->attempt == 0);
  engine->on<Step>([](const Step& step) { return step.pages; });
  REQUIRE(engine->start().has_value());
  CHECK(*Engine::result<int>(*engine->wait(id, 60s)) == 7);
}

TEST_CASE("invalid input is refused before a request, by field") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  CHECK(engine->enqueue(Add{}, {.priority = 12}).error().field == "priority");
  CHECK(engine->enqueue(NewJob{.kind = "k", .args = "{no json"}).error().code ==
        ErrorCode::invalid_argument);
  std::vector<NewJob> two(2, NewJob{.kind = "k"});
  two[1].args = "nope";
  CHECK(engine->enqueue_many(two).error().field.starts_with("jobs[1]."));
  CHECK(engine->start().error().field == "handlers");
  CHECK(engine->get(99).error().code == ErrorCode::not_found);
}

TEST_CASE("the same idempotency key is the same job; another job with it is a conflict") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  const auto first = engine->enqueue(Add{.a = 1}, {.idempotency_key = "k1"});
  const auto again = engine->enqueue(Add{.a = 1}, {.idempotency_key = "k1"});
  CHECK(first->id == again->id);
  CHECK(again->duplicate);
  CHECK(engine->enqueue(Add{.a = 2}, {.idempotency_key = "k1"}).error().code ==
        ErrorCode::conflict);
}

TEST_CASE("a database that does not answer is unavailable; the error contains no password") {
  const auto opened = Engine::open("postgres://me:hunter2@127.0.0.1:1/jobs");
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::unavailable);
  CHECK(opened.error().message.find("hunter2") == std::string::npos);
}

TEST_CASE("a store that cannot be opened is refused with the reason") {
  CHECK(Engine::open("mysql://db/jobs").error().message.find("mysql is not supported") !=
        std::string::npos);
  CHECK(Engine::open("http://").error().code == ErrorCode::invalid_argument);
  CHECK(Engine::open("https://example.com").has_value());  // which need not be there yet
  CHECK(Engine::open("").error().code == ErrorCode::invalid_argument);
  const EngineFolder folder;
  auto engine = folder.open();
  auto second = folder.open();
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::conflict);
}

TEST_CASE("a workflow is started, signalled and finished, and another one undone") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  engine->on<Add>([](const Add& add) { return Sum{add.a + add.b}; });
  REQUIRE(engine->start().has_value());
  WorkflowSpec spec{.name = "sum", .input = R"({"a":2})"};
  spec.steps.push_back(
      {.name = "add",
       .job = NewJob{.queue = "sums", .kind = "add", .args = R"({"a":{"$ref":"input.a"},"b":3})"},
       .undo = NewJob{.queue = "sums", .kind = "add", .args = R"({"a":0})"}});
  spec.steps.push_back({.name = "go", .after = {"add"}, .signal = "go"});
  spec.result = R"({"$ref":"add.sum"})";
  spec.key = "k";
  spec.steps[1].name = "add";
  CHECK(engine->workflows().start(spec).error().field == "steps[1].name");
  spec.steps[1].name = "go";
  const auto started = engine->workflows().start(spec);
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  CHECK_FALSE(started->duplicate);
  CHECK(engine->workflows().start(spec)->duplicate);
  REQUIRE(engine->workflows().signal(started->id, "go", "1", "s").has_value());
  const auto ended = engine->workflows().wait(started->id, 60s);
  REQUIRE(ended.has_value());
  CHECK(ended->state == WorkflowState::completed);
  CHECK(ended->result == "5");
  CHECK(engine->workflows().signal(started->id, "go").error().code == ErrorCode::conflict);

  spec.key = "other";
  spec.deadline = 1h;
  const auto other = engine->workflows().start(spec);
  REQUIRE(other.has_value());
  const auto waits = engine->workflows().wait(other->id, 0s);
  CHECK(waits->state == WorkflowState::running);
  REQUIRE(engine->workflows().cancel(other->id, "not now").has_value());
  CHECK(engine->workflows().wait(other->id, 60s)->state == WorkflowState::cancelled);
  CHECK(engine->workflows().get(other->id)->reason.find("not now") != std::string::npos);
  CHECK(engine->workflows().fork(started->id, "").error().field == "step");
  const auto fork = engine->workflows().fork(started->id, spec.steps[0].name, R"({"a":5})", "fork");
  REQUIRE(fork.has_value());
  CHECK(engine->workflows().fork(started->id, spec.steps[0].name, {}, "fork")->duplicate);
  CHECK(engine->workflows().get(fork->id)->forked_from ==
        ForkedFrom{started->id, spec.steps[0].name});
  CHECK(engine->workflows().get(fork->id)->input == R"({"a":5})");
  CHECK(engine->workflows().get(99).error().code == ErrorCode::not_found);
  engine->stop();
}

TEST_CASE("a trigger fires once for each event, in this process") {
  const EngineFolder folder;
  auto engine = folder.open(quiet());
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  Trigger trigger{.name = "t", .http = HookSource{}, .folder = {}, .job = {}};
  trigger.job.kind = "k";
  trigger.job.args = R"({"n":{"$ref":"body.n"}})";
  CHECK(engine->triggers().put(trigger).error().field == "secret");
  REQUIRE(engine->triggers().put(trigger, "a-token-of-24-characters").has_value());
  const auto fired = engine->triggers().fire("t", R"({"n":7})", "e1");
  REQUIRE_MESSAGE(fired.has_value(), fired.error().message);
  CHECK(engine->get(fired->job)->args == R"({"n":7})");
  CHECK(engine->triggers().fire("t", R"({"n":8})", "e1")->duplicate);
  CHECK(engine->triggers().fire("t", "{", "e2").error().field == "body");
  REQUIRE(engine->triggers().pause("t", "tired").has_value());
  CHECK(engine->triggers().fire("t", R"({"n":8})").error().code == ErrorCode::conflict);
  REQUIRE(engine->triggers().resume("t").has_value());
  CHECK(engine->triggers().get("t")->fired == 1);
  CHECK(engine->triggers().get("t")->secret.empty());
  REQUIRE(engine->triggers().remove("t").has_value());
  CHECK(engine->triggers().get("t").error().code == ErrorCode::not_found);
  engine->stop();
}
