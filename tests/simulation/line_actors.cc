// The actions of the clients of the world of lines.
#include "simulation/line_actors.h"

#include <fmt/format.h>

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLineJobLease = seconds(8);
constexpr std::size_t kMaxDeferred = 100;  // ids that a client keeps

void send(World& world, Operation operation) {
  world.call(std::move(operation), World::Delivery::repeatable, Duration(0),
             [](const std::optional<OperationResult>&) {});
}

// Until it is done.
// NOLINTNEXTLINE(misc-no-recursion): a second later
void insist(World& world, const Operation& operation) {
  world.call(operation, World::Delivery::repeatable, Duration(0),
             [&world, operation](const std::optional<OperationResult>& result) {
               if (result && std::holds_alternative<Done>(*result)) return;
               world.after(seconds(1), [&world, operation] { insist(world, operation); });
             });
}

void end(World& world, const std::string& worker, const ClaimedJob& job, Outcome outcome) {
  world.call(Finish{.worker = worker, .results = {{job.id, job.token, std::move(outcome)}}},
             World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

std::string some_key(World& world) {
  const auto key = world.below(4);
  return key == 0 ? "" : fmt::format("k{}", key);
}

}  // namespace

void LineActor::next() {
  world_.after(world_.between(shortest_, longest_), [this] {
    if (stopped_) return;
    next();
    act_();
  });
}

// -- breakers -------------------------------------------------------------------------------------

BreakerOperator::BreakerOperator(World& world)
    : world_(world),
      calls_(world, milliseconds(500), seconds(8), [this] { call_jobs(); }),
      changes_(world, seconds(5), seconds(60), [this] { change(); }) {}

void BreakerOperator::start() {
  PutBreaker put{.name = kBreaker, .settings = {}};
  put.settings.failures = 1 + static_cast<int>(world_.below(4));
  put.settings.within = world_.between(seconds(5), seconds(60));
  put.settings.open_for = world_.between(seconds(1), seconds(8));
  put.settings.max_open_for = world_.between(seconds(8), seconds(40));
  put.settings.probes = 1 + static_cast<int>(world_.below(5));
  insist(world_, put);
  for (const std::string& queue : kBreakerQueues)
    insist(world_, SetQueueLimits{.queue = queue, .limits = {.breaker = kBreaker}});
  calls_.start();
  changes_.start();
}

void BreakerOperator::stop() {
  calls_.stop();
  changes_.stop();
}

void BreakerOperator::call_jobs() {
  Enqueue request;
  const std::string& queue = kBreakerQueues[world_.below(kBreakerQueues.size())];
  for (auto left = 1 + world_.below(6); left > 0; --left) {
    NewJob job{.queue = queue, .kind = "call"};
    job.max_attempts =
        2 + static_cast<int>(world_.below(3));  // the default back-off is their fourth power
    job.priority = static_cast<int>(world_.below(3));
    request.jobs.push_back(std::move(job));
  }
  send(world_, std::move(request));
}

void BreakerOperator::change() {
  const auto some = [&]() -> const std::string& { return kBreakerQueues[world_.below(2)]; };
  switch (world_.below(7)) {
    case 6:
      return send(world_, Redrive{.filter = {.queue = some()}, .limit = 5});
    case 0:
    case 1: {
      OpenBreaker open{.name = kBreaker};
      if (!world_.chance(3)) open.open_for = world_.between(seconds(1), seconds(30));
      return send(world_, open);
    }
    case 2:
      return send(world_, CloseBreaker{.name = kBreaker});
    case 3: {
      PutBreaker put{.name = kBreaker, .settings = {}};
      put.settings.failures = 1 + static_cast<int>(world_.below(6));
      put.settings.within = world_.between(seconds(2), seconds(60));
      put.settings.open_for = world_.between(seconds(1), seconds(10));
      put.settings.max_open_for = world_.between(seconds(10), seconds(40));
      put.settings.probes = 1 + static_cast<int>(world_.below(8));
      return send(world_, put);
    }
    case 4:
      if (world_.chance(3)) return send(world_, SetQueueLimits{.queue = some(), .limits = {}});
      [[fallthrough]];
    default: {
      SetQueueLimits limit{.queue = some(), .limits = {.breaker = kBreaker}};
      if (world_.chance(3)) limit.limits.concurrency = 1 + static_cast<int>(world_.below(20));
      return send(world_, std::move(limit));
    }
  }
}

CallWorker::CallWorker(World& world, const Service& service, int number)
    : world_(world),
      service_(service),
      loop_(world,
            {.worker = fmt::format("caller{}", number),
             .queues = kBreakerQueues,
             .max = 12,
             .wait = seconds(15),
             .lease = kLineJobLease,
             .work = seconds(2),
             .late_one_in = 25,
             .rest = milliseconds(600),
             .dies_with_one_in = 25},
            [this](const ClaimedJob& job) { finish(job); }) {}

void CallWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  const bool calm = world_.healed();
  if (service_.is_down() || (!calm && world_.chance(40))) {
    Retry retry{.error = "503", .after = milliseconds(world_.below(5000))};
    if (world_.chance(8)) retry.open_breaker_for = world_.between(seconds(1), seconds(20));
    outcome = std::move(retry);
    if (world_.chance(12)) outcome = Snooze{seconds(2), world_.between(seconds(1), seconds(15))};
    if (world_.chance(20)) outcome = Dead{.reason = "broken", .description = ""};
  }
  end(world_, loop_.worker(), job, std::move(outcome));
}

// -- order ----------------------------------------------------------------------------------------

Crowd::Crowd(World& world)
    : world_(world),
      aged_(world, seconds(4), seconds(20), [this] { send_aged(); }),
      fair_(world, seconds(4), seconds(20), [this] { send_fair(); }),
      changes_(world, seconds(15), seconds(90), [this] { change(); }) {}

void Crowd::start() {
  change();
  aged_.start();
  fair_.start();
  changes_.start();
}

void Crowd::stop() {
  aged_.stop();
  fair_.stop();
  changes_.stop();
}

void Crowd::send_aged() {
  Enqueue request;
  for (auto left = 1 + world_.below(10); left > 0; --left) {
    NewJob job{.queue = kAgedQueue, .kind = "waits"};
    job.priority = static_cast<int>(world_.below(10));
    job.max_attempts = 3;
    if (world_.chance(4)) job.delay = world_.between(seconds(1), seconds(20));
    request.jobs.push_back(std::move(job));
  }
  send(world_, std::move(request));
}

void Crowd::send_fair() {
  Enqueue request;
  const std::string most = some_key(world_);
  for (auto left = 4 + world_.below(10); left > 0; --left) {
    NewJob job{.queue = kFairQueue, .kind = "waits"};
    job.limit_key = world_.chance(3) ? some_key(world_) : most;
    job.max_attempts = 3;
    request.jobs.push_back(std::move(job));
  }
  send(world_, std::move(request));
}

void Crowd::change() {
  SetQueueLimits aged{.queue = kAgedQueue, .limits = {}};
  if (!world_.chance(4)) aged.limits.ageing = world_.between(seconds(1), seconds(10));
  send(world_, std::move(aged));
  SetQueueLimits fair{.queue = kFairQueue, .limits = {}};
  fair.limits.per_key.fair = true;
  if (!world_.chance(4)) fair.limits.per_key.weights = {{"k1", 4}, {"k2", 2}};
  if (world_.chance(4)) fair.limits.concurrency = 1 + static_cast<int>(world_.below(3));
  send(world_, std::move(fair));
}

LineWorker::LineWorker(World& world, const std::string& queue)
    : world_(world),
      loop_(world,
            {.worker = "of " + queue,
             .queues = {queue},
             .max = 3,
             .wait = seconds(15),
             .lease = kLineJobLease,
             .work = seconds(2),
             .late_one_in = 20,
             .rest = milliseconds(1500),
             .dies_with_one_in = 20},
            [this](const ClaimedJob& job) { finish(job); }) {}

void LineWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (!world_.healed() && world_.chance(10)) {
    outcome = Retry{.error = "no", .after = seconds(world_.below(8))};
    if (world_.chance(3)) outcome = Snooze{seconds(world_.below(8))};
  }
  end(world_, loop_.worker(), job, std::move(outcome));
}

// -- deferred jobs --------------------------------------------------------------------------------

DeferOperator::DeferOperator(World& world)
    : world_(world),
      jobs_(world, seconds(1), seconds(10), [this] { send_jobs(); }),
      changes_(world, seconds(2), seconds(25), [this] { change(); }) {}

void DeferOperator::start() {
  jobs_.start();
  changes_.start();
}

void DeferOperator::stop() {
  jobs_.stop();
  changes_.stop();
}

void DeferOperator::send_jobs() {
  Enqueue request;
  for (auto left = 1 + world_.below(3); left > 0; --left) {
    NewJob job{.queue = kDeferQueue, .kind = "later"};
    job.max_attempts = 1 + static_cast<int>(world_.below(4));
    job.priority = static_cast<int>(world_.below(3));
    if (world_.chance(5)) {
      job.unique = Unique{.key = fmt::format("u{}", world_.below(3))};
      if (world_.chance(2)) job.unique->on_conflict = OnConflict::replace;
    } else if (world_.chance(6)) {
      job.session = fmt::format("s{}", world_.below(2));
    }
    if (job.session.empty() && world_.chance(3)) job.limit_key = some_key(world_);
    if (world_.chance(4)) job.delay = world_.between(seconds(1), seconds(20));
    if (world_.chance(4)) job.expires_in = world_.between(seconds(20), seconds(60));
    request.jobs.push_back(std::move(job));
  }
  world_.call(std::move(request), World::Delivery::repeatable, Duration(0),
              [this](const std::optional<OperationResult>& result) {
                const auto* done = result ? std::get_if<EnqueueResult>(&*result) : nullptr;
                if (done == nullptr || done->jobs.empty()) return;
                known_.push_back(done->jobs.back().id);
                if (known_.size() > kMaxDeferred) known_.erase(known_.begin());
              });
}

void DeferOperator::change() {
  switch (world_.below(5)) {
    case 0:
      return send(world_, PauseQueue{kDeferQueue, world_.chance(2)});
    case 1: {
      SetQueueLimits limit{.queue = kDeferQueue, .limits = {}};
      if (world_.chance(2)) limit.limits.concurrency = 1 + static_cast<int>(world_.below(4));
      if (world_.chance(3)) limit.limits.per_key.concurrency = 1;
      if (world_.chance(3)) limit.limits.per_key.fair = true;
      if (world_.chance(3)) limit.limits.ageing = world_.between(seconds(1), seconds(10));
      if (world_.chance(3)) limit.limits.breaker = kBreaker;
      if (world_.chance(4))
        limit.limits.rate = RateLimit{.count = 3, .per = world_.between(seconds(1), seconds(6))};
      return send(world_, std::move(limit));
    }
    default:
      return retry_or_cancel();
  }
}

void DeferOperator::retry_or_cancel() {
  if (known_.empty()) return;
  const JobId id = known_[world_.below(known_.size())];
  if (world_.chance(2)) return send(world_, RetryJob{.id = id});
  send(world_, Cancel{.id = id, .reason = "unwanted"});
}

DeferWorker::DeferWorker(World& world, int number)
    : world_(world),
      loop_(world,
            {.worker = fmt::format("aside{}", number),
             .queues = {kDeferQueue},
             .max = 3,
             .wait = seconds(10),
             .lease = kLineJobLease,
             .work = seconds(3),
             .late_one_in = 20,
             .rest = seconds(1),
             .dies_with_one_in = 15},
            [this](const ClaimedJob& job) { finish(job); }),
      comes_back_(world, milliseconds(500), seconds(8), [this] { come_back(); }) {}

void DeferWorker::start() {
  loop_.start();
  comes_back_.start();
}

void DeferWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (!world_.healed()) {
    if (world_.chance(8)) outcome = Retry{.error = "no", .after = seconds(world_.below(5))};
    if (world_.chance(2)) outcome = Defer{world_.chance(2) ? "waits for a letter" : ""};
  }
  if (std::holds_alternative<Defer>(outcome)) deferred_.push_back(job.id);
  if (deferred_.size() > kMaxDeferred) deferred_.pop_front();
  end(world_, loop_.worker(), job, std::move(outcome));
}

void DeferWorker::come_back() {
  if (deferred_.empty()) return;
  const bool last = world_.chance(3);  // one that has just been deferred
  const JobId id = last ? deferred_.back() : deferred_.front();
  if (!world_.chance(4)) last ? deferred_.pop_back() : deferred_.pop_front();
  const Duration sent = world_.now();
  world_.call(
      Claim{.worker = loop_.worker(), .queues = {kDeferQueue}, .lease = kLineJobLease, .job = id},
      World::Delivery::prompt, world_.between(milliseconds(1), seconds(20)),
      [this, id, sent](const std::optional<OperationResult>& result) {
        if (!result) return;
        const std::string why = world_.deferred.answered(id, *result, world_.now() - sent);
        if (!why.empty()) return world_.broken(why);
        const auto* got = std::get_if<ClaimResult>(&*result);
        if (got == nullptr || (!world_.healed() && world_.chance(12))) return;
        world_.after(world_.between(milliseconds(1), seconds(4)),
                     [this, job = got->jobs.at(0)] { finish(job); });
      });
}

void tend_deferred(World& world) {
  send(world, PauseQueue{kDeferQueue, false});
  constexpr int kAll = 1000;
  const auto page = world.store().list({.queue = kDeferQueue, .state = JobState::waiting}, kAll, 0);
  for (const Job& job : page ? page->jobs : std::vector<Job>{}) {
    if (job.deferred) send(world, RetryJob{.id = job.id});
  }
}

}  // namespace mainspring::simulation
