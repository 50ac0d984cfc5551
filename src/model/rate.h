// RateMeter: what has started under a rate limit, and when more can start. Used by all stores.
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
  RateMeter() = default;  // nothing has started
  // Parses the output of text(). Any other text counts as nothing started.
  static RateMeter parse(std::string_view text);
  std::string text() const;  // "" = nothing has started; under 2 KiB

  // How many can start now. After a clock was set back, the meter stays closed for at most twice
  // the time of the limit.
  int allowed(const RateLimit& limit, WallTime now) const;
  // Records `n` starts at `now`.
  void take(const RateLimit& limit, WallTime now, int n);
  // When `begins` can start at once; not after `now` if they can start now. `begins` is capped at
  // the limit.
  WallTime opens_at(const RateLimit& limit, WallTime now, int begins = 1) const;
  // When the meter equals a new meter; the minimum time if nothing has started.
  WallTime as_new_at(const RateLimit& limit) const;
  // The time of the last start, or slightly before: a lower bound of the clock's progress. Later
  // than now if the clock was set back. The minimum time if nothing has started.
  WallTime last_begin(const RateLimit& limit) const;

  friend bool operator==(const RateMeter&, const RateMeter&) = default;

 private:
  // Time in microseconds, and a count. Bucket: one entry, the time when it is full again. Window:
  // its start and its count. Sliding window: the slices, oldest first.
  using Entry = std::pair<std::int64_t, std::int64_t>;
  std::vector<Entry> within(const RateLimit& limit, std::int64_t now) const;
  std::vector<Entry> entries_;
};

// How many can start at once after an idle period.
int most_at_once(const RateLimit& limit);
// The farthest possible opening, unless the clock was set back since.
Duration farthest_opening(const RateLimit& limit);
// For the meter of one limit key: until when its jobs cannot start; nullopt = one can start now.
std::optional<WallTime> key_closed_until(const KeyLimits& limits, const RateMeter& meter,
                                         WallTime now);
// How long a key's meter is kept after it equals a new one. A clock set back by less than this
// changes nothing.
inline constexpr Duration kKeyMeterKept = std::chrono::minutes(10);

}  // namespace mainspring
