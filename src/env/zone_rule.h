// The rule by which a zone's clocks change when its file lists no more changes, such as
// "CET-1CEST,M3.5.0,M10.5.0/3" (POSIX, the variable TZ). Private to time_zone.cc, and C++17: the
// library's header for it (date/ptz.h) does not compile beside the calendar of C++20.
#pragma once

#include <cstdint>
#include <string>

namespace mainspring {

class ZoneRule {
 public:
  // Throws std::runtime_error if `rule` is invalid.
  explicit ZoneRule(const std::string& rule);
  ~ZoneRule();
  ZoneRule(const ZoneRule&) = delete;
  ZoneRule& operator=(const ZoneRule&) = delete;

  struct Info {
    std::int64_t end;     // of the period with this offset; seconds since 1970, UTC
    std::int64_t offset;  // seconds east of UTC
  };
  Info at(std::int64_t seconds) const;

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace mainspring
