// A whole program: what an operator does, done from C++. Limits and order, a breaker, a job that
// was deferred, the dead letter, a session, a workflow and a trigger; and its events.
//
//   looking_after DIRECTORY    the job store goes there
#include <fmt/format.h>

#include <atomic>
#include <filesystem>

#include "mainspring/engine.h"

using namespace std::chrono_literals;
using namespace mainspring;

namespace {

NewJob job_of(std::string queue, std::string kind, std::string args = "{}") {
  NewJob job;
  job.queue = std::move(queue);
  job.kind = std::move(kind);
  job.args = std::move(args);
  return job;
}

Result<void> limit_queues(Engine& engine) {
  EngineQueues queues = engine.queues();
  QueueLimits mails{.concurrency = 5, .rate = RateLimit{.count = 1, .per = 1h}};
  mails.per_key.concurrency = 1;  // of each customer, by limit_key
  MS_TRY(queues.set_limits("mails", mails));
  mails.rate.reset();  // the others stay
  MS_TRY(queues.set_limits("mails", mails));

  MS_TRY(queues.set_limits("media", {.concurrency = 6, .costs = {{"render", 4}}}));
  MS_TRY_ASSIGN(const QueueStatus media, queues.get("media"));
  fmt::print("media: a render takes {} of {}\n", media.limits.cost_of("render"),
             *media.limits.concurrency);

  QueueLimits exports{.ageing = 10min};  // one priority better each 10 minutes
  exports.per_key.fair = true;           // customers take turns,
  exports.per_key.weights = {{"acme", 3}};
  MS_TRY(queues.set_limits("exports", exports));
  return {};
}

Result<void> say_why(Engine& engine) {
  MS_TRY(engine.queues().pause("mails"));
  MS_TRY_ASSIGN(const Enqueued job, engine.enqueue(job_of("mails", "send")));
  MS_TRY_ASSIGN(const Why why, engine.why(job.id));
  fmt::print("{}: {}\n", to_string(why.gate), why.text);
  return engine.queues().resume("mails");
}

Result<void> use_a_breaker(Engine& engine) {
  EngineBreakers breakers = engine.breakers();
  MS_TRY(breakers.put("geocoder", {.failures = 3, .open_for = 1min}));
  MS_TRY(engine.queues().set_limits("addresses", {.breaker = "geocoder"}));
  MS_TRY(breakers.open("geocoder", 10min));  // before an upgrade over there
  MS_TRY_ASSIGN(const BreakerInfo info, breakers.get("geocoder"));
  fmt::print("geocoder: {}\n", to_string(info.state));
  return breakers.close("geocoder");
}

Result<void> empty_the_quarantine(Engine& engine) {
  MS_TRY(engine.queues().set_limits("photos", {.quarantine_after = 1}));
  MS_TRY_ASSIGN(const std::vector<Job> apart, engine.quarantine().list("photos"));
  for (const Job& job : apart) MS_TRY(engine.quarantine().release(job.id));
  fmt::print("released: {}\n", apart.size());
  return {};
}

// Its handler deferred it until it is signed.
Result<void> sign(Engine& engine, JobId id) {
  MS_TRY_ASSIGN(HeldJob held, engine.claim(id));
  fmt::print("signing {}\n", held.job().args);
  return held.finish(Complete{R"({"by":"anna"})"});
}

Result<void> redrive(Engine& engine) {
  EngineDead dead = engine.dead();
  MS_TRY_ASSIGN(const DeadGroups groups, dead.groups({.queue = "photos"}));
  const DeadGroup& most = groups.groups.at(0);  // the largest first
  fmt::print("{} died of \"{}\"\n", most.count, most.message);
  MS_TRY_ASSIGN(const Redriven again, dead.redrive({.fingerprint = most.fingerprint}));
  fmt::print("again: {}\n", again.redriven);
  for (const JobId id : again.ids) MS_TRY(engine.wait(id, 1min));
  return {};
}

Result<void> hold_a_session(Engine& engine) {
  SessionOptions mine{.key = "customer/7"};
  MS_TRY_ASSIGN(HeldSession session, engine.sessions().accept("orders", mine));
  for (;;) {
    MS_TRY_ASSIGN(const auto job, session.next());
    if (!job) break;  // no more comes: given back at the end of the scope
    MS_TRY(session.finish(*job, Complete{}, R"({"seen":1})"));
  }
  MS_TRY_ASSIGN(const SessionStatus status, engine.sessions().get("orders", "customer/7"));
  fmt::print("customer/7: {}\n", status.state);
  return {};
}

Result<void> take_up_what_is_parked(Engine& engine) {
  EngineWorkflows workflows = engine.workflows();
  MS_TRY_ASSIGN(const WorkflowPage parked, workflows.list({.state = WorkflowState::parked}));
  for (const WorkflowInfo& one : parked.workflows) {
    MS_TRY(workflows.retry(one.id));  // or: retry(id, "charge", RetryMode::by_hand)
    MS_TRY_ASSIGN(const WorkflowInfo info, workflows.wait(one.id, 1min));
    fmt::print("{}: {}\n", info.name, to_string(info.state));
  }
  return {};
}

Result<void> fire_a_trigger(Engine& engine) {
  Trigger trigger;
  trigger.name = "import";
  trigger.http = HookSource{.event_id = "body.id"};
  trigger.job = job_of("orders", "import", R"({"order":{"$ref":"body.order"}})");
  EngineTriggers triggers = engine.triggers();
  MS_TRY(triggers.put(trigger, "a-secret-of-many-letters"));
  MS_TRY(triggers.fire("import", R"({"order":7})", "e1"));
  MS_TRY(triggers.pause("import", "the shop is closed"));
  MS_TRY_ASSIGN(const TriggerEventPage ledger, triggers.ledger("import"));
  for (const TriggerEvent& row : ledger.rows) fmt::print("fired: {}\n", row.event);
  return {};
}

Result<void> look_after(Engine& engine) {
  std::atomic<int> deaths = 0;
  MS_TRY_ASSIGN(const EventSubscription events,
                engine.events({.queues = {"photos"}, .types = {EventType::dead, EventType::gap}},
                              [&](const EngineEvent&) { ++deaths; }));  // on a thread of its own

  MS_TRY(limit_queues(engine));
  MS_TRY(say_why(engine));
  MS_TRY(use_a_breaker(engine));
  MS_TRY(empty_the_quarantine(engine));
  MS_TRY_ASSIGN(const Enqueued contract, engine.enqueue(job_of("desk", "approve", "7")));
  MS_TRY(sign(engine, contract.id));
  // One after the other: the newest death names its group.
  for (const char* const number : {"1", "2"}) {
    MS_TRY_ASSIGN(const Enqueued photo, engine.enqueue(job_of("photos", "resize", number)));
    MS_TRY(engine.wait(photo.id, 1min));
  }
  MS_TRY(redrive(engine));
  NewJob order = job_of("orders", "reserve");
  order.session = "customer/7";
  MS_TRY(engine.enqueue(order));
  MS_TRY(hold_a_session(engine));
  WorkflowSpec spec{.name = "order"};
  spec.steps.push_back(
      {.name = "charge", .job = job_of("pay", "charge"), .undo = job_of("pay", "refund")});
  spec.steps.push_back({.name = "ship", .after = {"charge"}, .job = job_of("pay", "ship")});
  MS_TRY_ASSIGN(const StartedWorkflow started, engine.workflows().start(spec));
  MS_TRY(engine.workflows().wait(started.id, 1min));
  MS_TRY(take_up_what_is_parked(engine));
  return fire_a_trigger(engine);
}

// Photos and refunds die the first time.
void add_handlers(Engine& engine, std::atomic<int>& calls, std::atomic<int>& refunds) {
  const auto done = [](const ClaimedJob&, Context&) -> HandlerResult {
    return Outcome(Complete{});
  };
  engine.on_kind("resize",
                 [&calls](const ClaimedJob& job, Context&) -> HandlerResult {
                   if (++calls <= 2)
                     return Outcome(Dead{"broken", "cannot read " + job.args + ".jpg"});
                   return Outcome(Complete{});
                 },
                 {.queue = "photos"});
  engine.on_kind("charge", done, {.queue = "pay"});
  engine.on_kind("ship",
                 [](const ClaimedJob&, Context&) -> HandlerResult {
                   return Outcome(Dead{"unknown address", ""});
                 },
                 {.queue = "pay"});
  engine.on_kind("refund",
                 [&refunds](const ClaimedJob&, Context&) -> HandlerResult {
                   if (++refunds == 1) return Outcome(Dead{"the bank is closed", ""});
                   return Outcome(Complete{});
                 },
                 {.queue = "pay"});
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "looking-after-data";
  std::filesystem::create_directories(folder);
  std::atomic<int> calls = 0, refunds = 0;
  auto engine = Engine::open((folder / "jobs").string(), {.log = [](auto, auto) {}});
  Result<void> done;
  if (!engine) {
    done = engine.error();
  } else {
    add_handlers(*engine, calls, refunds);
    done = engine->start();
    if (done) done = look_after(*engine);
    engine->stop();
  }
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
