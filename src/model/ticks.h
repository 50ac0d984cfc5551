// Ticks: the times of one schedule, forwards and backwards. Private to the model's schedule.cc and
// plan.cc; schedule.h states the rules.
#pragma once

#include <optional>
#include <string>

#include "env/time_zone.h"
#include "mainspring/schedule.h"
#include "model/cron.h"

namespace mainspring {

class Ticks {
 public:
  // `schedule` has passed validate().
  explicit Ticks(const Schedule& schedule);

  // The first tick strictly after / the last at or before `t`; nullopt = none.
  std::optional<WallTime> next_after(WallTime t) const;
  std::optional<WallTime> last_until(WallTime t) const;
  // The tick that was planned for `planned` by the rules of `old`, by the zone's present rules: the
  // same local time, so no tick is lost or doubled. It may be at or before `now`.
  std::optional<WallTime> moved(WallTime planned, const TimeZone& old, WallTime now) const;
  // The same without the rules of then: `planned` if it is a tick by the present rules, else the
  // nearest tick after `fired`. A change of rules by less than half the time between two ticks
  // loses and doubles none.
  std::optional<WallTime> settled(WallTime planned, WallTime fired, WallTime now) const;
  // How a clock change affected the tick at `t`; "" = not at all.
  std::string note(WallTime t) const;
  // The number of ticks from `first` to `last`, which are both ticks; 0 = too many to count.
  std::int64_t count(WallTime first, WallTime last) const;
  // Why the times are unknown; "" = known. A stored schedule was valid once, but an update of the
  // system's database may have removed its time zone.
  const std::string& problem() const { return problem_; }
  // Calls of the calendar so far: the cost.
  std::int64_t steps() const { return steps_; }

 private:
  std::optional<WallTime> fixed_after(WallTime t) const;
  std::optional<WallTime> fixed_until(WallTime t) const;
  // Every instant whose local time matches.
  std::optional<WallTime> real_after(WallTime t) const;
  std::optional<WallTime> real_until(WallTime t) const;
  std::optional<WallTime> cron_after(WallTime t) const;
  std::optional<WallTime> cron_until(WallTime t) const;
  std::optional<LocalSeconds> local_after(LocalSeconds t) const;
  std::optional<LocalSeconds> local_until(LocalSeconds t) const;
  // The latest local time shown until `t`; later than the clock shows after it was set back.
  LocalSeconds shown_until(WallTime t) const;

  std::optional<Cron> cron_;
  const TimeZone* zone_ = nullptr;
  bool twice_ = false;  // RepeatedHour::twice
  std::int64_t every_us_ = 0;
  std::int64_t base_us_ = 0;
  std::optional<WallTime> at_;
  std::optional<WallTime> start_, end_;
  std::string problem_;
  mutable std::int64_t steps_ = 0;
};

}  // namespace mainspring
