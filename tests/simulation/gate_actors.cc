// The actions of the clients of limits and triggers.
#include "simulation/gate_actors.h"

#include <fmt/format.h>

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kGateJobLease = seconds(8);
constexpr Duration kGateAsksFor = seconds(60);

void no_answer(const std::optional<OperationResult>&) {}

}  // namespace

void Feeder::next() {
  world_.after(world_.between(milliseconds(200), seconds(12)), [this] {
    if (stopped_) return;
    next();
    if (world_.chance(2)) return enqueue();
    const bool again = sent_ > 0 && world_.chance(3);
    if (!again) sent_ = world_.events.next();
    fire(again ? 1 + static_cast<std::int64_t>(world_.below(static_cast<std::uint64_t>(sent_)))
               : sent_,
         world_.now());
  });
}

void Feeder::enqueue() {
  Enqueue request;
  const auto n = 1 + world_.below(5);
  for (std::uint64_t i = 0; i < n; ++i) {
    NewJob job{.queue = kLimitQueue, .kind = world_.ends.defined ? kWatchedKind : "gated"};
    job.max_attempts = 1 + static_cast<int>(world_.below(3));
    job.priority = static_cast<int>(world_.below(3));
    if (world_.chance(4)) job.session = fmt::format("s{}", world_.below(2));
    if (job.session.empty() && !world_.chance(3))
      job.limit_key = fmt::format("k{}", world_.below(3));
    if (world_.chance(6)) job.expires_in = world_.between(seconds(1), seconds(40));
    if (world_.chance(5)) job.delay = world_.between(seconds(1), seconds(30));
    request.jobs.push_back(std::move(job));
  }
  world_.call(std::move(request), World::Delivery::plain, Duration(0), no_answer);
}

void Feeder::fire(std::int64_t event, Duration first_sent) {
  FireTrigger request{.name = kTrigger,
                      .event = TriggerInvariant::id(event),
                      .args = TriggerInvariant::args(event)};
  const bool known = world_.events.knows(event);
  const auto answered = [this, event, first_sent,
                         known](const std::optional<OperationResult>& result) {
    if (result) {
      world_.events.answered(event, *result, known);
    } else {
      world_.events.unanswered(event);
    }
    if (world_.events.knows(event) || world_.now() > first_sent + kGateAsksFor) return;
    world_.after(world_.between(milliseconds(1), seconds(5)),
                 [this, event, first_sent] { fire(event, first_sent); });
  };
  const int copies =
      world_.call(std::move(request), World::Delivery::repeatable, Duration(0), answered);
  if (copies > 1) world_.events.unanswered(event);
}

void GateOperator::start() {
  define();
  watch_ends();
  set_limits();
  next();
}

void GateOperator::watch_ends() {
  world_.call(EndInvariant::definition(kLimitQueue), World::Delivery::repeatable, Duration(0),
              [this](const std::optional<OperationResult>& result) {
                if (result && std::holds_alternative<PutTriggerResult>(*result)) {
                  world_.ends.defined = true;
                } else {
                  world_.after(seconds(1), [this] { watch_ends(); });
                }
              });
}

void GateOperator::next() {
  world_.after(world_.between(seconds(3), seconds(60)), [this] {
    if (stopped_) return;
    next();
    switch (world_.below(4)) {
      case 0:
        return define();
      case 1:
        return send(PauseTrigger{.name = kTrigger, .paused = world_.chance(2)});
      default:
        return set_limits();
    }
  });
}

void GateOperator::set_limits() {
  SetQueueLimits change{.queue = kLimitQueue, .limits = {}};
  if (!world_.chance(4)) change.limits.concurrency = 1 + static_cast<int>(world_.below(4));
  if (world_.chance(2)) change.limits.per_key.concurrency = 1 + static_cast<int>(world_.below(2));
  if (world_.chance(3)) change.limits.ageing = world_.between(seconds(1), seconds(20));
  if (world_.chance(2)) change.limits.per_key.fair = true;
  if (world_.chance(2)) {
    RateLimit rate{.count = 1 + static_cast<int>(world_.below(15)),
                   .per = world_.between(seconds(1), seconds(45))};
    rate.kind = static_cast<RateKind>(world_.below(3));
    if (rate.kind == RateKind::bucket && world_.chance(2))
      rate.burst = 1 + static_cast<int>(world_.below(8));
    change.limits.rate = rate;
  }
  send(std::move(change));
}

void GateOperator::define() {
  PutTrigger put{.trigger = {.name = kTrigger}, .secret = "s"};
  put.trigger.http = HookSource{};
  put.trigger.job = NewJob{.queue = kLimitQueue, .kind = "event"};
  put.trigger.job.max_attempts = 1 + static_cast<int>(world_.below(2));
  if (world_.chance(2)) put.paused = false;
  send(std::move(put));
}

void GateOperator::send(Operation operation) {
  world_.call(std::move(operation), World::Delivery::repeatable, Duration(0), no_answer);
}

GateWorker::GateWorker(World& world, int number)
    : world_(world),
      loop_(world,
            {.worker = fmt::format("gater{}", number),
             .queues = {kLimitQueue},
             .max = 6,
             .wait = seconds(20),
             .lease = kGateJobLease,
             .work = seconds(4),
             .late_one_in = 15,
             .rest = seconds(2)},
            [this](const ClaimedJob& job) { finish(job); }) {}

void GateWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (!world_.healed() && world_.chance(6))
    outcome = Retry{.error = "no", .after = seconds(world_.below(5))};
  if (!world_.healed() && world_.chance(8)) outcome = Snooze{seconds(1 + world_.below(10))};
  if (!world_.healed() && world_.chance(15)) outcome = Dead{.reason = "broken"};
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
              World::Delivery::prompt, Duration(0), no_answer);
}

void check_trigger(World& world) {
  const auto trigger = world.store().trigger(kTrigger);
  if (!trigger) return;  // no definition of it ever arrived
  const auto page = world.store().trigger_events(kTrigger, 1'000'000, 0);
  if (!page) return world.broken("read-back: " + page.error().message);
  const TriggerInvariant::Verdict verdict = world.events.check(*trigger, page->rows);
  world.met.events_fired += verdict.jobs;
  world.met.events_repeated += verdict.duplicates;
  if (!verdict.broken.empty()) world.broken(verdict.broken);
}

}  // namespace mainspring::simulation
