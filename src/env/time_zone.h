// TimeZone: the clock changes of a place, from the system's IANA database.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

class TimeZone {
 public:
  // "UTC" (which needs no database), "Europe/Berlin". Zones live as long as the program; each is
  // read at first use, and again when changes() finds that its file has other rules. Errors:
  // invalid_argument with field "time_zone" (no such zone), unavailable (no database: the message
  // names the package to install). Thread-safe.
  static Result<const TimeZone*> find(std::string_view name);
  virtual ~TimeZone() = default;

  // A zone that got other rules; `old` has those from before.
  struct Change {
    std::string name;
    const TimeZone* old = nullptr;
  };
  // Looks at the files of all zones in use. Returns the changes of this process after the first
  // `seen`, and counts them. Thread-safe.
  static std::vector<Change> changes(std::size_t& seen);
  // For tests: the database, with a '/' at its end.
  static void read_from(std::string directory);

  // The local time, in seconds since 1970-01-01T00:00:00 of the local calendar.
  virtual std::int64_t local_seconds(WallTime t) const = 0;

  // The period around `t` without a clock change: [begin, end).
  struct Span {
    WallTime begin = WallTime::from_us(kBeginningUs);  // the least value: no earlier change
    WallTime end = WallTime::never();                  // never: no later change is known
    std::int64_t offset_s = 0;                         // local time minus UTC
    static constexpr std::int64_t kBeginningUs = std::numeric_limits<std::int64_t>::min();
  };
  virtual Span span(WallTime t) const = 0;

  enum class Kind : std::uint8_t { once, skipped, twice };
  struct Resolved {
    Kind kind = Kind::once;
    WallTime first;   // once: the time; twice: the earlier; skipped: the end of the gap
    WallTime second;  // twice: the later; else as first
  };
  virtual Resolved resolve(std::int64_t local_seconds) const = 0;
};

}  // namespace mainspring
