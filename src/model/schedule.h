// The rules of schedules: the times of their ticks, and what happens to due ticks. Pure functions
// of their arguments (and the system's time zones).
//
// Clock changes. A fixed wall time that does not exist (02:30 when 02:00 becomes 03:00) runs once,
// right after the gap. If several times of a schedule fall into the gap, or a regular time follows
// at its end, they run once together. A wall time that occurs twice runs the first time. If the
// hour field starts with *, every real hour has its runs, and none is moved. `every` is independent
// of the wall clock. The note of a tick says what moved it.
//
// Cost: after a year of ticks of one second each, or ten years without a scheduler, the plan skips
// ahead to the last tick. No code walks from tick to tick over past time, except over the last
// misfire_cap ticks.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "env/time_zone.h"
#include "mainspring/schedule.h"
#include "model/tick.h"

namespace mainspring {

// Checks all rules of Schedule that need no store. Fields are named as on the wire ("cron",
// "time_zone", "job.kind"). Errors: invalid_argument, too_large.
Result<void> validate(const Schedule& schedule);

// Why no tick of a stored schedule can be computed on this machine: its time zone is unknown, as
// after an update of the system's database; "" = nothing is wrong.
std::string schedule_problem(const Schedule& schedule);

struct NextTick {
  WallTime nominal = WallTime::never();
  WallTime fires_at = WallTime::never();
  std::string note;
};
// The first tick strictly after `t`, within start_at and end_at; nominal never = none. `schedule`
// is valid.
NextTick next_tick(const Schedule& schedule, WallTime t);
// The tick that is planned for `planned` by the rules of `old`, by the present rules of the time
// zone: see Ticks::moved.
NextTick moved_tick(const Schedule& schedule, WallTime planned, const TimeZone& old, WallTime now);
// The same if the earlier rules are unknown: see Ticks::settled.
NextTick settled_tick(const Schedule& schedule, WallTime planned, WallTime fired, WallTime now);
// The value for PutSchedule: the first tick of a new definition. A tick of `at` may be in the past:
// then it is late, and the misfire policy decides.
NextTick first_tick(const Schedule& schedule, WallTime now);

// The next ticks after `from`, at most `count`, to show to people.
std::vector<PreviewTick> preview(const Schedule& schedule, WallTime from, int count);
// The ticks in [from, to), at most `limit`, all of which fire; `next` = where to continue.
struct TickRange {
  std::vector<Tick> ticks;
  std::optional<WallTime> next;
};
TickRange ticks_between(const Schedule& schedule, WallTime from, WallTime to, int limit);

// The decisions for a schedule whose next_fire has come: its ticks from `next` to now, by
// skip_before and the misfire policy, and the next tick. The rows cover every tick of that time:
//   - before skip_before: one row, skip_reason;
//   - late by more than kMisfireGrace: by the misfire policy; folded ones have "missed: folded into
//     <nominal>", too old ones "missed: later than 24h", beyond the cap "missed: over the cap of
//     100", policy skip "missed: policy skip";
//   - the others fire.
// Consecutive ticks with the same decision share a row (count 0 if counting would mean walking). If
// the time zone is unknown here (an update of the system's database removed it), nothing is
// decided: no rows and the same next, to be retried after kUnknownZoneRetry; its note says why.
struct FiringPlan {
  std::vector<Tick> ticks;  // at most 2 * kMaxMisfires
  NextTick next;
  std::int64_t steps = 0;  // calls of the calendar; does not grow with the time span
};
inline constexpr Duration kUnknownZoneRetry = std::chrono::minutes(1);
FiringPlan plan_firing(const ScheduleInfo& info, WallTime now);

// The fixed part of the jitter, by which every tick of the schedule fires later: a hash of its
// name.
Duration jitter_of(const Schedule& schedule);

}  // namespace mainspring
