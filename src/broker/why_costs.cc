// Which limit holds a job of a queue with costs.
#include <fmt/format.h>

#include "broker/why.h"
#include "model/slots.h"

namespace mainspring {
namespace {

std::string taken_words(std::int64_t taken, int most) {
  return fmt::format("{} of the {} slots", taken, most);
}
std::string of_key(std::string_view key) {
  return key.empty() ? "" : fmt::format(" with limit_key \"{}\"", key);
}

// A limit of a queue or of one of its keys, and how much of it is used.
struct Used {
  const std::optional<int>& concurrency;
  const std::optional<RateLimit>& rate;
  std::int64_t slots_taken;
  const RateMeter& meter;
  std::string_view key;  // "" = of the queue
};

std::optional<Why> held(const QueueStats& queue, int cost, const Used& used, WallTime now) {
  const std::string costs = cost == 1 ? "" : fmt::format("it costs {}: ", cost);
  const auto& most = used.concurrency;
  if (most && used.slots_taken + slots_of(cost, *most) > *most) {
    return Why{
        used.key.empty() ? Gate::concurrency : Gate::key_concurrency,
        fmt::format("{}{} of queue {}{} {} taken", costs, taken_words(used.slots_taken, *most),
                    queue.name, of_key(used.key), used.slots_taken == 1 ? "is" : "are"),
        {}};
  }
  if (!used.rate) return std::nullopt;
  const int begins = begins_of(cost, *used.rate);
  const int left = used.meter.allowed(*used.rate, now);
  if (left >= begins) return std::nullopt;
  const WallTime until = used.meter.opens_at(*used.rate, now, begins);
  return Why{used.key.empty() ? Gate::rate : Gate::key_rate,
             fmt::format("{}queue {} starts at most {} per {}{}, {} {} left; {} at {}", costs,
                         queue.name, used.rate->count, format_duration(used.rate->per),
                         of_key(used.key), left == 0 ? "none" : fmt::to_string(left),
                         left <= 1 ? "is" : "are", begins, format_wall_time(until)),
             until};
}

Used used_of(const QueueStats& queue) {
  return {queue.limits.concurrency, queue.limits.rate, queue.slots_taken, queue.meter, ""};
}

}  // namespace

std::optional<Why> held_by_cost(const Job& job, const QueueStats& queue, const LimitKeyInfo& key,
                                WallTime now) {
  const int cost = queue.limits.cost_of(job.kind);
  if (auto why = held(queue, cost, used_of(queue), now)) return why;
  if (job.limit_key.empty()) return std::nullopt;
  const KeyLimits& limits = queue.limits.per_key;
  return held(queue, cost,
              {limits.concurrency, limits.rate, key.slots_taken, key.meter, job.limit_key}, now);
}

std::optional<Why> waits_for_heavy(const QueueStats& queue, WallTime now) {
  for (const auto& [kind, cost] : queue.limits.costs) {
    auto why = held(queue, cost, used_of(queue), now);
    if (!why) continue;
    why->text = fmt::format(
        "a job before it that costs more slots, for example of kind {}, may be waiting; {}", kind,
        why->text);
    why->until.reset();
    return why;
  }
  return std::nullopt;
}

}  // namespace mainspring
