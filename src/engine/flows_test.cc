// Sessions, workflows, triggers and schedules of an engine: read, paused and continued by hand.
#include <doctest/doctest.h>

#include "engine/engine_rig.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("a session that a dead job parked is found and resumed") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  engine->on_kind("step",
                  [](const ClaimedJob& job, Context&) -> HandlerResult {
                    if (job.args == "1") return Outcome(Dead{"broken", ""});
                    return Outcome(Complete{});
                  },
                  {.queue = "orders"});
  std::vector<NewJob> jobs = {job_of("orders", "step", "1"), job_of("orders", "step", "2")};
  for (NewJob& job : jobs) job.session = "customer/7", job.on_dead = OnDead::park;
  const auto made = engine->enqueue_many(std::move(jobs));
  REQUIRE(engine->start().has_value());
  CHECK(engine->wait(made->at(0).id, 60s)->state == JobState::dead);

  EngineSessions sessions = engine->sessions();
  const auto stopped = sessions.get("orders", "customer/7");
  REQUIRE_MESSAGE(stopped.has_value(), stopped.error().message);
  CHECK(stopped->stopped == "parked");
  CHECK(stopped->stopped_by == made->at(0).id);
  CHECK(stopped->jobs == 1);
  CHECK(engine->why(made->at(1).id)->gate == Gate::session_stopped);
  const auto page = sessions.list("orders");
  REQUIRE(page->sessions.size() == 1);
  CHECK(page->sessions.front().key == "customer/7");
  CHECK_FALSE(page->next.has_value());
  REQUIRE(sessions.resume("orders", "customer/7").has_value());
  CHECK(engine->wait(made->at(1).id, 60s)->state == JobState::completed);

  CHECK(code_of(sessions.get("orders", "unknown")) == ErrorCode::not_found);
  CHECK(code_of(sessions.resume("orders", "unknown")) == ErrorCode::not_found);
  CHECK(field_of(sessions.get("orders", "")) == "session");
  CHECK(field_of(sessions.list("orders", 0)) == "limit");
  engine->stop();
}

TEST_CASE("a session is held by one program at a time") {
  const Folder folder;
  auto engine = folder.open();
  EngineSessions sessions = engine->sessions();
  auto held = sessions.accept("orders", {.key = "customer/7"});
  REQUIRE_MESSAGE(held.has_value(), held.error().message);
  CHECK(code_of(sessions.accept("orders", {.key = "customer/7"})) == ErrorCode::lease_held);
  CHECK(sessions.get("orders", "customer/7")->token == held->token());
  REQUIRE(held->set_state(R"({"seen":1})").has_value());
  CHECK(sessions.get("orders", "customer/7")->state == R"({"seen":1})");
  CHECK(sessions.list("orders")->sessions.at(0).state_bytes > 0);
}

namespace {

WorkflowSpec order_of(const std::string& name) {
  WorkflowSpec spec{.name = name};
  NewJob charge = job_of("pay", "charge");
  NewJob refund = job_of("pay", "refund");
  NewJob ship = job_of("pay", "ship");
  refund.max_attempts = ship.max_attempts = 1;
  spec.steps.push_back({.name = "charge", .job = charge, .undo = refund});
  spec.steps.push_back({.name = "ship", .after = {"charge"}, .job = ship});
  return spec;
}

// The jobs "ship" and "refund" die.
void let_ship_and_refund_die(Engine& engine) {
  engine.on_kind("charge",
                 [](const ClaimedJob&, Context&) -> HandlerResult { return Outcome(Complete{}); },
                 {.queue = "pay"});
  for (const char* kind : {"ship", "refund"}) {
    engine.on_kind(kind,
                   [](const ClaimedJob&, Context&) -> HandlerResult {
                     return Outcome(Dead{"broken", "the bank is closed"});
                   },
                   {.queue = "pay"});
  }
}

}  // namespace

TEST_CASE("a parked workflow can be found, shows its steps and is continued by hand") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  let_ship_and_refund_die(*engine);
  REQUIRE(engine->start().has_value());
  EngineWorkflows workflows = engine->workflows();
  const auto started = workflows.start(order_of("order"));
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  CHECK(workflows.wait(started->id, 60s)->state == WorkflowState::parked);
  const auto parked = workflows.list({.name = "order", .state = WorkflowState::parked});
  REQUIRE(parked->workflows.size() == 1);
  CHECK(parked->workflows.front().id == started->id);
  CHECK(workflows.list({.state = WorkflowState::completed})->workflows.empty());
  const auto steps = workflows.steps(started->id);
  REQUIRE(steps->steps.size() == 2);
  CHECK(steps->steps[0].state == StepState::undo_failed);
  CHECK(steps->steps[1].state == StepState::failed);
  CHECK(workflows.steps(started->id, 1)->next == 1);

  CHECK(code_of(workflows.retry(started->id, "ship")) == ErrorCode::not_found);
  // The bank is still closed: a retry parks the workflow again, with another job.
  REQUIRE(workflows.retry(started->id).has_value());
  CHECK(workflows.wait(started->id, 60s)->state == WorkflowState::parked);
  CHECK(workflows.steps(started->id)->steps[0].undo_job != steps->steps[0].undo_job);
  REQUIRE(workflows.retry(started->id, "charge", RetryMode::by_hand).has_value());
  CHECK(workflows.wait(started->id, 60s)->state == WorkflowState::undone);
  CHECK(code_of(workflows.retry(started->id)) == ErrorCode::conflict);
  engine->stop();
}

TEST_CASE("no step of a paused workflow starts until it is resumed") {
  const Folder folder;
  auto engine = folder.open();
  engine->on_kind("charge",
                  [](const ClaimedJob&, Context&) -> HandlerResult { return Outcome(Complete{}); },
                  {.queue = "pay"});
  REQUIRE(engine->start().has_value());
  WorkflowSpec spec{.name = "order"};
  spec.steps.push_back({.name = "go", .signal = "go"});
  spec.steps.push_back({.name = "charge", .after = {"go"}, .job = job_of("pay", "charge")});
  EngineWorkflows workflows = engine->workflows();
  const WorkflowId id = workflows.start(spec)->id;
  CHECK(workflows.pause(id)->paused);
  REQUIRE(workflows.signal(id, "go").has_value());
  CHECK(workflows.get(id)->state == WorkflowState::running);
  CHECK(workflows.steps(id)->steps.at(1).state == StepState::waiting);
  CHECK_FALSE(workflows.resume(id)->paused);
  CHECK(workflows.wait(id, 60s)->state == WorkflowState::completed);
  CHECK(code_of(workflows.pause(id)) == ErrorCode::conflict);
  CHECK(code_of(workflows.pause(99)) == ErrorCode::not_found);
  CHECK(field_of(workflows.list({.name = "no name"})) == "name");
  CHECK(field_of(workflows.list({.limit = 1001})) == "limit");
  CHECK(field_of(workflows.steps(id, 0)) == "limit");
  engine->stop();
}

TEST_CASE("a paused trigger does not fire, and the ledger lists what fired") {
  const Folder folder;
  auto engine = folder.open();
  EngineTriggers triggers = engine->triggers();
  Trigger trigger{.name = "import", .http = HookSource{}, .folder = {}, .job = {}};
  trigger.job.kind = "import";
  REQUIRE(triggers.put(trigger, "a-token-of-24-characters").has_value());
  REQUIRE(triggers.pause("import", "the shop is closed").has_value());
  CHECK(code_of(triggers.fire("import", "{}", "e1")) == ErrorCode::conflict);
  CHECK(triggers.get("import")->paused_reason == "the shop is closed");
  CHECK(triggers.ledger("import")->rows.empty());
  REQUIRE(triggers.resume("import").has_value());
  const auto fired = triggers.fire("import", R"({"order":7})", "e1");
  REQUIRE_MESSAGE(fired.has_value(), fired.error().message);
  REQUIRE(triggers.fire("import", "{}", "e2").has_value());
  const auto ledger = triggers.ledger("import");
  REQUIRE(ledger->rows.size() == 2);
  CHECK(ledger->rows[1].event == "e1");
  CHECK(ledger->rows[1].job == fired->job);
  CHECK(triggers.ledger("import", 1, ledger->rows[0].seq)->rows.at(0).event == "e1");
  const auto all = triggers.list();
  REQUIRE(all->size() == 1);
  CHECK(all->front().fired == 2);
  CHECK(all->front().secret.empty());
  CHECK(triggers.list(10, "import")->empty());

  CHECK(
      field_of(triggers.put(
          Trigger{
              .name = "ends", .http = {}, .folder = {}, .ended = EndedSource{}, .job = trigger.job},
          "a-token-of-24-characters")) == "secret");
  trigger.http->auth = HookAuth::signature;
  CHECK(field_of(triggers.put(trigger, "no key of signatures")) == "secret");
  CHECK(field_of(triggers.list(0)) == "limit");
  CHECK(field_of(triggers.ledger("no name")) == "name");
  CHECK(code_of(triggers.ledger("unknown")) == ErrorCode::not_found);
  REQUIRE(triggers.remove("import").has_value());
  CHECK(triggers.list()->empty());
}

TEST_CASE("a schedule can be previewed, run now and paused, and its ledger read") {
  const Folder folder;
  auto engine = folder.open();
  EngineSchedules schedules = engine->schedules();
  Schedule nightly;
  nightly.name = "nightly";
  nightly.cron = "30 2 * * *";
  nightly.job.kind = "report";
  CHECK(schedules.put(nightly)->outcome == DefinitionOutcome::created);
  const auto again = schedules.put(nightly);
  CHECK(again->version == 1);
  CHECK(again->outcome == DefinitionOutcome::unchanged);
  const auto ticks = schedules.preview("nightly", 2, WallTime::from_us(0));
  REQUIRE(ticks->size() == 2);
  CHECK(format_wall_time(ticks->at(1).nominal) == "1970-01-02T02:30:00Z");
  const auto job = schedules.trigger("nightly");
  REQUIRE_MESSAGE(job.has_value(), job.error().message);
  CHECK(engine->get(*job)->kind == "report");
  const auto ledger = schedules.ledger("nightly");
  REQUIRE(ledger->rows.size() == 1);
  CHECK(ledger->rows[0].job == *job);
  REQUIRE(schedules.pause("nightly", "holidays").has_value());
  CHECK(schedules.get("nightly")->paused_reason == "holidays");
  REQUIRE(schedules.resume("nightly").has_value());
  CHECK(schedules.list()->size() == 1);
  CHECK(code_of(schedules.set_timeout("nightly", 1s)) == ErrorCode::conflict);
  CHECK(field_of(schedules.preview("nightly", 0)) == "count");
  CHECK(field_of(schedules.pause("no name")) == "name");
  REQUIRE(schedules.remove("nightly").has_value());
  CHECK(code_of(schedules.get("nightly")) == ErrorCode::not_found);
}
