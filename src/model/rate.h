// RateMeter: what has begun under a rate limit, and when the next may. The same in every store.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/limits.h"

namespace mainspring {

class RateMeter {
 public:
  RateMeter() = default;  // nothing has begun
  // What text() wrote; what is none counts as nothing.
  static RateMeter parse(std::string_view text);
  std::string text() const;  // "" = nothing has begun; under 2 KiB

  // How many may begin now. A clock that was set back closes it for no longer than twice the time
  // of the limit.
  int allowed(const RateLimit& limit, WallTime now) const;
  // `n` begin now.
  void take(const RateLimit& limit, WallTime now, int n);
  // From when on so many may begin at once; not after `now` if they may now. No more than the limit
  // has.
  WallTime opens_at(const RateLimit& limit, WallTime now, int begins = 1) const;
  // From when on it is as if nothing had begun; the beginning of time if nothing has.
  WallTime as_new_at(const RateLimit& limit) const;
  // When something began last, or a little before: the clock has come that far. So it may be later
  // than now, if the clock was set back. The beginning of time if nothing has.
  WallTime last_begin(const RateLimit& limit) const;

  friend bool operator==(const RateMeter&, const RateMeter&) = default;

 private:
  // Microseconds, and how many. Of a bucket one entry: when it is full again. Of a window one: its
  // begin and what it has. Sliding: slices of the time, oldest first.
  using Entry = std::pair<std::int64_t, std::int64_t>;
  std::vector<Entry> within(const RateLimit& limit, std::int64_t now) const;
  std::vector<Entry> entries_;
};

// How many may begin at once, after a rest.
int most_at_once(const RateLimit& limit);
// No opening lies further ahead, but by a clock that was set back since.
Duration farthest_opening(const RateLimit& limit);
// The meter of one limit key: until when none of its jobs may begin; nullopt = one may now.
std::optional<WallTime> key_closed_until(const KeyLimits& limits, const RateMeter& meter,
                                         WallTime now);
// Meters of keys are forgotten so long after they were as new: a clock that is set back by less
// changes nothing.
inline constexpr Duration kKeyMeterKept = std::chrono::minutes(10);

}  // namespace mainspring
