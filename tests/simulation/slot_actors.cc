// The actions of the clients of the world of slots.
#include "simulation/slot_actors.h"

#include <fmt/format.h>

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kSlotJobLease = seconds(8);
constexpr std::size_t kSlotMaxKnown = 50;  // ids that are kept
constexpr std::uint64_t kLimits = 6;   // that change one by one

void slot_send(World& world, Operation operation) {
  world.call(std::move(operation), World::Delivery::repeatable, Duration(0),
             [](const std::optional<OperationResult>&) {});
}

std::string some_kind(World& world) {
  static const std::vector<std::string> kinds = {"light", "light",    "light", "heavy",
                                                 "heavy", "middling", "huge"};
  return kinds[world.below(kinds.size())];
}

ClaimLoop::Habits slot_habits(int number) {
  ClaimLoop::Habits h{.worker = fmt::format("slots{}", number),
                      .queues = kHeavyQueues,
                      .max = 8,
                      .wait = seconds(15),
                      .lease = kSlotJobLease,
                      .work = seconds(3),
                      .late_one_in = 20,
                      .rest = milliseconds(800),
                      .dies_with_one_in = 20};
  if (number < 2) h.queues = {kHeavyQueues[static_cast<std::size_t>(number)]};
  if (number == 3) h.kinds = {"light", "middling"};
  return h;
}

}  // namespace

SlotOperator::SlotOperator(World& world)
    : world_(world),
      jobs_(world, milliseconds(500), seconds(7), [this] { send_jobs(); }),
      changes_(world, seconds(3), seconds(30), [this] { change(); }),
      cancels_(world, seconds(2), seconds(20), [this] { cancel(); }),
      limits_(kHeavyQueues.size()) {}

void SlotOperator::start() {
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    for (std::uint64_t which = 0; which < kLimits; ++which) draw(limits_[i], which);
    slot_send(world_, SetQueueLimits{.queue = kHeavyQueues[i], .limits = limits_[i]});
  }
  jobs_.start();
  changes_.start();
  cancels_.start();
}

void SlotOperator::stop() {
  jobs_.stop();
  changes_.stop();
  cancels_.stop();
}

JobId SlotOperator::some_job() const {
  return known_.empty() ? 0 : known_[world_.below(known_.size())];
}

void SlotOperator::send_jobs() {
  Enqueue request;
  const std::string& queue = kHeavyQueues[world_.below(kHeavyQueues.size())];
  for (auto left = 1 + world_.below(6); left > 0; --left) {
    NewJob job{.queue = queue, .kind = some_kind(world_)};
    job.max_attempts = 2 + static_cast<int>(world_.below(3));
    job.priority = world_.chance(4) ? static_cast<int>(world_.below(3)) : 1;
    if (!world_.chance(3)) job.limit_key = fmt::format("k{}", world_.below(3));
    if (world_.chance(5)) job.delay = world_.between(seconds(1), seconds(20));
    if (world_.chance(8)) job.expires_in = world_.between(seconds(5), seconds(60));
    request.jobs.push_back(std::move(job));
  }
  world_.call(std::move(request), World::Delivery::repeatable, Duration(0),
              [this](const std::optional<OperationResult>& result) {
                const auto* done = result ? std::get_if<EnqueueResult>(&*result) : nullptr;
                if (done == nullptr) return;
                for (const auto& job : done->jobs) known_.push_back(job.id);
                while (known_.size() > kSlotMaxKnown) known_.pop_front();
              });
}

std::optional<RateLimit> SlotOperator::some_rate() {
  if (world_.chance(2)) return std::nullopt;
  RateLimit rate{.count = 2 + static_cast<int>(world_.below(15)),
                 .per = world_.between(seconds(2), seconds(20))};
  rate.kind = static_cast<RateKind>(world_.below(3));
  if (rate.kind == RateKind::bucket && world_.chance(2))
    rate.burst = 1 + static_cast<int>(world_.below(8));
  return rate;
}

void SlotOperator::draw(QueueLimits& limits, std::uint64_t which) {
  const auto some = [&](std::uint64_t most) { return 1 + static_cast<int>(world_.below(most)); };
  switch (which) {
    case 0:
      limits.costs.clear();
      if (!world_.chance(6))
        limits.costs = {{"middling", 2}, {"heavy", 1 + some(5)}, {"huge", 20 + some(900)}};
      break;
    case 1:
      limits.concurrency = world_.chance(4) ? std::nullopt : std::optional(1 + some(8));
      break;
    case 2:
      limits.per_key.concurrency = world_.chance(2) ? std::nullopt : std::optional(some(4));
      break;
    case 3:
      limits.rate = some_rate();
      break;
    case 4:
      limits.per_key.rate = some_rate();
      break;
    default:  // mostly in the order of the ready queue, which can be judged
      limits.per_key.fair = world_.chance(6);
      limits.ageing.reset();
      if (world_.chance(8)) limits.ageing = world_.between(seconds(1), seconds(10));
  }
}

void SlotOperator::change() {
  const std::size_t which = world_.below(kHeavyQueues.size());
  draw(limits_[which], world_.below(kLimits));
  slot_send(world_, SetQueueLimits{.queue = kHeavyQueues[which], .limits = limits_[which]});
}

void SlotOperator::cancel() {
  if (const JobId id = some_job(); id != 0)
    slot_send(world_, Cancel{.id = id, .reason = "unwanted"});
}

SlotWorker::SlotWorker(World& world, const SlotOperator& jobs, int number)
    : world_(world),
      jobs_(jobs),
      loop_(world, slot_habits(number), [this](const ClaimedJob& job) { finish(job); }),
      asks_(world, seconds(2), seconds(20), [this] { ask_by_id(); }) {}

void SlotWorker::start() {
  loop_.start();
  asks_.start();
}

void SlotWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (!world_.healed()) {
    if (world_.chance(10)) outcome = Retry{.error = "no", .after = seconds(world_.below(6))};
    if (world_.chance(12)) outcome = Snooze{seconds(world_.below(6))};
  }
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

void SlotWorker::ask_by_id() {
  const JobId id = jobs_.some_job();
  if (id == 0 || world_.healed()) return;
  world_.call(
      Claim{.worker = loop_.worker(), .queues = kHeavyQueues, .lease = kSlotJobLease, .job = id},
      World::Delivery::prompt, Duration(0), [this](const std::optional<OperationResult>& result) {
        const auto* got = result ? std::get_if<ClaimResult>(&*result) : nullptr;
        if (got == nullptr || (!world_.healed() && world_.chance(12))) return;
        for (const ClaimedJob& job : got->jobs) {
          world_.after(world_.between(milliseconds(1), seconds(3)), [this, job] { finish(job); });
        }
      });
}

}  // namespace mainspring::simulation
