// Concurrency slots, and when rates open.
#include "model/slots.h"

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {
namespace {

int part(int cost, int all) {
  return MS_MUTANT(cost_not_capped) ? cost : std::min(cost, all);
}

}  // namespace

int slots_of(int cost, int concurrency) {
  return MS_MUTANT(concurrency_ignores_cost) ? 1 : part(cost, concurrency);
}

int begins_of(int cost, const RateLimit& rate) {
  return MS_MUTANT(rate_ignores_cost) ? 1 : part(cost, most_at_once(rate));
}

Room Room::none() {
  return Room().bound_jobs(0);
}

Room Room::of(const std::optional<int>& concurrency, std::int64_t slots_taken,
              const std::optional<RateLimit>& rate, const RateMeter& meter, WallTime now) {
  Room room;
  if (concurrency) {
    room.all_slots_ = *concurrency;
    room.slots_ = static_cast<int>(std::max<std::int64_t>(0, *concurrency - slots_taken));
  }
  if (rate) {
    room.all_begins_ = most_at_once(*rate);
    room.begins_ = meter.allowed(*rate, now);
  }
  return room;
}

Room& Room::bound_jobs(int jobs) {
  jobs_ = std::min(jobs_, std::max(0, jobs));
  return *this;
}

bool Room::fits(int cost) const {
  const int begins = MS_MUTANT(rate_ignores_cost) ? 1 : part(cost, all_begins_);
  return jobs_ > 0 && slots_of(cost, all_slots_) <= slots_ && begins <= begins_;
}

void Room::take(int cost) {
  const auto less = [](int& free, int by) {
    if (free != kUnlimited) free = std::max(0, free - by);
  };
  less(jobs_, 1);
  less(slots_, slots_of(cost, all_slots_));
  less(begins_, MS_MUTANT(rate_ignores_cost) ? 1 : part(cost, all_begins_));
}

int Room::jobs() const {
  return std::min({jobs_, slots_, begins_});
}

Room room_of(const QueueLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
             WallTime now) {
  if (MS_MUTANT(room_without_those_that_run)) slots_taken = 0;
  return Room::of(limits.concurrency, slots_taken, limits.rate, meter, now);
}

Room room_of_key(const KeyLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
                 WallTime now) {
  if (MS_MUTANT(limit_per_key_ignored)) slots_taken = 0;
  const auto rate = MS_MUTANT(key_rate_ignored) ? std::nullopt : limits.rate;
  return Room::of(limits.concurrency, slots_taken, rate, meter, now);
}

std::optional<RateOpening> next_rate_opening(const QueueLimits& limits, const RateLimit& rate,
                                             const RateMeter& meter, WallTime now) {
  const int allowed = meter.allowed(rate, now);
  int next = allowed < 1 ? 1 : 0;
  for (const auto& [kind, cost] : limits.costs) {
    const int begins = begins_of(cost, rate);
    if (allowed < begins && (next == 0 || begins < next)) next = begins;
  }
  if (next == 0) return std::nullopt;
  return RateOpening{.begins = next, .at = meter.opens_at(rate, now, next)};
}

std::optional<RateOpening> next_key_opening(const QueueLimits& limits, const RateMeter& meter,
                                            WallTime now) {
  if (!limits.per_key.rate || MS_MUTANT(key_rate_ignored)) return std::nullopt;
  return next_rate_opening(limits, *limits.per_key.rate, meter, now);
}

int begins_awaited(const QueueLimits& limits, const RateLimit& rate, const RateMeter& meter,
                   WallTime at) {
  if (limits.costs.empty()) return 1;
  const auto before = next_rate_opening(limits, rate, meter, at - std::chrono::microseconds(1));
  return before ? before->begins : 1;
}

std::optional<WallTime> closed_until(const QueueLimits& limits, const RateMeter& meter,
                                     std::optional<WallTime> opens_at) {
  if (!opens_at || !limits.rate) return std::nullopt;
  return begins_awaited(limits, *limits.rate, meter, *opens_at) == 1 ? opens_at : std::nullopt;
}

}  // namespace mainspring
