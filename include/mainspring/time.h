// The three kinds of time: Duration (a length), Instant (steady), WallTime (the calendar).
//
// Leases, timeouts and waits use Instant, which never jumps. run_at, expiry and all times shown to
// people use WallTime, which an administrator may set back. Subtracting one from the other does not
// compile. All count microseconds.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

using Duration = std::chrono::microseconds;

// "No limit", for a Duration that is a limit.
inline constexpr Duration kForever = Duration::max();

template <class Tag>
class TimePoint {
 public:
  constexpr TimePoint() = default;
  static constexpr TimePoint from_us(std::int64_t us) { return TimePoint(us); }
  static constexpr TimePoint from_ms(std::int64_t ms) { return TimePoint(ms * 1000); }
  // Later than any time.
  static constexpr TimePoint never() { return TimePoint(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t us() const { return us_; }
  constexpr std::int64_t ms() const { return us_ / 1000; }

  friend constexpr auto operator<=>(TimePoint, TimePoint) = default;
  friend constexpr Duration operator-(TimePoint a, TimePoint b) { return Duration(a.us_ - b.us_); }
  // Saturates at never(), so that "now + kForever" is never and does not wrap.
  friend constexpr TimePoint operator+(TimePoint t, Duration d) {
    if (d.count() > 0 && t.us_ > std::numeric_limits<std::int64_t>::max() - d.count())
      return never();
    return TimePoint(t.us_ + d.count());
  }
  friend constexpr TimePoint operator-(TimePoint t, Duration d) {
    return TimePoint(t.us_ - d.count());
  }

 private:
  constexpr explicit TimePoint(std::int64_t us) : us_(us) {}
  std::int64_t us_ = 0;
};

using Instant = TimePoint<struct InstantTag>;    // steady: from an arbitrary start, CLOCK_BOOTTIME
using WallTime = TimePoint<struct WallTimeTag>;  // since 1970-01-01T00:00:00Z

// The time of a step or a batch on both clocks. The caller reads both once.
struct Now {
  Instant instant;
  WallTime wall;
};

// "250ms", "30s", "15m", "24h", "7d", "1.5s", "100us"; combined "1h30m" too. Never negative.
// Errors: invalid_argument.
Result<Duration> parse_duration(std::string_view text);
// The shortest text that parse_duration converts back to the same value; "none" for kForever.
std::string format_duration(Duration d);

// RFC 3339. Parses any offset, prints UTC: "2026-01-31T09:00:00Z", with 0, 3 or 6 fractional
// digits. Years 1970 to 9999. Errors: invalid_argument.
Result<WallTime> parse_wall_time(std::string_view text);
std::string format_wall_time(WallTime t);

}  // namespace mainspring
