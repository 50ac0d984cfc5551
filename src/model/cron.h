// Cron expressions: the wall-clock times that they match. Time zones are handled in schedule.h.
//
//   5 fields   minute hour day-of-month month day-of-week     POSIX: if both day fields are given,
//                                                             one match is enough
//   6 fields   second first                                   NCRONTAB: both days must match
// Fields: * a a-b a,b */n a-b/n a/n (from a to the end), names of months and weekdays (three
// letters or more of the English name, any case). A range may continue at the start: 22-2, FRI-MON.
// Sunday is 0 and 7. Day-of-month: L (the last day), L-n (n days before it), nW LW L-nW (the
// Monday to Friday nearest to that day). Day-of-week: a#k (the k-th of the month), aL and a#L (the
// last), where a may be a range. A day field that starts with * or is ? counts as not given.
// @yearly @annually @monthly @weekly @daily @midnight @hourly.
// Source: POSIX.1-2017 crontab; NCrontab of atifaziz; vixie cron; Quartz.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

// A calendar time without a zone, in seconds since 1970-01-01T00:00:00 on that calendar.
using LocalSeconds = std::int64_t;

class Cron {
 public:
  // Errors: invalid_argument with field "cron", naming the part and the rule. An expression that
  // never matches (31 February) is refused.
  static Result<Cron> parse(std::string_view text);

  // The first match strictly after / at or before `t`; nullopt = none from December 1969 to January
  // 10000, the local times of the years 1970 to 9999 in any zone.
  // Skips days without a match in one step, never walks over seconds: at most some thousand steps
  // of nanoseconds each, however long the gap.
  std::optional<LocalSeconds> next_after(LocalSeconds t) const;
  std::optional<LocalSeconds> last_until(LocalSeconds t) const;

  bool every_hour() const;  // the hour field starts with *: the schedule runs in every real hour
  bool has_seconds() const { return has_seconds_; }

 private:
  struct Days;
  bool day_matches(std::int64_t day) const;  // days since 1970
  std::bitset<60> seconds_, minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<7> weekdays_;
  std::array<std::bitset<6>, 7> nth_weekdays_{};  // [weekday][k], 0 = the last
  std::bitset<32> last_days_;                     // [n]: n days before the last
  std::bitset<32> near_days_, near_last_days_;    // with W: the nearest Monday to Friday
  bool either_day_ = false;
  bool has_seconds_ = false;
  bool hours_star_ = false;
};

}  // namespace mainspring
