// Slots: what a job takes of the limits that it meets, what is free of them, and when more will be.
//
// A job of a kind with a cost takes so many slots of a concurrency, and as many begins of a rate,
// but never more than there are: what costs more than a limit takes all of it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "mainspring/limits.h"
#include "model/rate.h"

namespace mainspring {

// What a job of that cost takes of a concurrency, and of a rate: 1 to all that there is.
int slots_of(int cost, int concurrency);
int begins_of(int cost, const RateLimit& rate);

// What is free of the limits of a queue, or of those of a limit key. No limit has no end.
class Room {
 public:
  Room() = default;  // without limits
  static Room none();
  static Room of(const std::optional<int>& concurrency, std::int64_t slots_taken,
                 const std::optional<RateLimit>& rate, const RateMeter& meter, WallTime now);
  // So many more jobs at most, whatever they cost.
  Room& bound_jobs(int jobs);
  bool fits(int cost) const;
  void take(int cost);  // one that fits
  // How many jobs of cost 1 fit; 0 = no job does.
  int jobs() const;

 private:
  static constexpr int kUnlimited = std::numeric_limits<int>::max();
  int slots_ = kUnlimited, all_slots_ = kUnlimited;
  int begins_ = kUnlimited, all_begins_ = kUnlimited;
  int jobs_ = kUnlimited;
};

// `slots_taken`: of the concurrency, by what runs.
Room room_of(const QueueLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
             WallTime now);
Room room_of_key(const KeyLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
                 WallTime now);

// Somebody waits for a rate until it lets a job of the least cost begin that it does not let now,
// then for the next cost. `rate`: of `limits`, or of its keys.
struct RateOpening {
  int begins = 1;  // which are free then
  WallTime at;
  friend bool operator==(const RateOpening&, const RateOpening&) = default;
};
// nullopt = it lets any job begin.
std::optional<RateOpening> next_rate_opening(const QueueLimits& limits, const RateLimit& rate,
                                             const RateMeter& meter, WallTime now);
// The same of a limit key.
std::optional<RateOpening> next_key_opening(const QueueLimits& limits, const RateMeter& meter,
                                            WallTime now);
// What was waited for until `at`, which next_rate_opening() has said when `meter` was as it is.
// 1 = nothing at all begins before.
int begins_awaited(const QueueLimits& limits, const RateLimit& rate, const RateMeter& meter,
                   WallTime at);
// As nothing at all begins before it; else nullopt.
std::optional<WallTime> closed_until(const QueueLimits& limits, const RateMeter& meter,
                                     std::optional<WallTime> opens_at);

}  // namespace mainspring
