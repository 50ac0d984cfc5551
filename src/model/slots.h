// Slots: what a job uses of its limits, what is free, and when more becomes free.
//
// A job of cost c uses c slots of a concurrency and c starts of a rate, but at most the whole
// limit: a job that costs more than a limit uses all of it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "mainspring/limits.h"
#include "model/rate.h"

namespace mainspring {

// What a job of this cost uses of a concurrency, and of a rate: from 1 to the whole limit.
int slots_of(int cost, int concurrency);
int begins_of(int cost, const RateLimit& rate);

// The free capacity under the limits of a queue or a limit key. Without limits it is infinite.
class Room {
 public:
  Room() = default;  // without limits
  static Room none();
  static Room of(const std::optional<int>& concurrency, std::int64_t slots_taken,
                 const std::optional<RateLimit>& rate, const RateMeter& meter, WallTime now);
  // Allows at most `jobs` more jobs, whatever their cost.
  Room& bound_jobs(int jobs);
  bool fits(int cost) const;
  void take(int cost);  // must fit
  // How many jobs of cost 1 fit; 0 = no job fits.
  int jobs() const;

 private:
  static constexpr int kUnlimited = std::numeric_limits<int>::max();
  int slots_ = kUnlimited, all_slots_ = kUnlimited;
  int begins_ = kUnlimited, all_begins_ = kUnlimited;
  int jobs_ = kUnlimited;
};

// `slots_taken`: concurrency slots used by running jobs.
Room room_of(const QueueLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
             WallTime now);
Room room_of_key(const KeyLimits& limits, std::int64_t slots_taken, const RateMeter& meter,
                 WallTime now);

// When a rate next admits more: the smallest cost that it refuses now, and when it admits a job of
// that cost. `rate`: the rate of `limits`, or of its keys.
struct RateOpening {
  int begins = 1;  // the cost that it then admits
  WallTime at;
  friend bool operator==(const RateOpening&, const RateOpening&) = default;
};
// nullopt = the rate admits any job now.
std::optional<RateOpening> next_rate_opening(const QueueLimits& limits, const RateLimit& rate,
                                             const RateMeter& meter, WallTime now);
// The same for a limit key.
std::optional<RateOpening> next_key_opening(const QueueLimits& limits, const RateMeter& meter,
                                            WallTime now);
// The cost that the wait until `at` was for, if `meter` has not changed since next_rate_opening()
// returned `at`. 1 = no job at all can start before.
int begins_awaited(const QueueLimits& limits, const RateLimit& rate, const RateMeter& meter,
                   WallTime at);
// `at` if no job at all can start before it; else nullopt.
std::optional<WallTime> closed_until(const QueueLimits& limits, const RateMeter& meter,
                                     std::optional<WallTime> opens_at);

}  // namespace mainspring
