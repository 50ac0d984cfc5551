// The laws of schedules: when their ticks are, and what is to happen to those that are due. Pure
// functions of their arguments (and the system's time zones).
//
// Clock changes. A fixed wall time that does not exist (02:30 when 02:00 becomes 03:00) runs once,
// right after the gap, however many of the schedule's times fell into it (and once with a time that
// stands there by itself); one that exists twice runs the first time. Where the hour field begins
// with *, every real hour has its runs, and none is moved. `every` knows no wall clock. The note of
// a tick says what moved it.
//
// Cost: a year of ticks of one second each, or ten years without a scheduler, is skipped ahead to
// the last tick; nothing here walks from tick to tick over time that has passed, except the last
// misfire_cap.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "mainspring/schedule.h"
#include "model/tick.h"

namespace mainspring {

// Every rule of Schedule that needs no store; fields are named as on the wire ("cron",
// "time_zone", "job.kind"). Errors: invalid_argument, too_large.
Result<void> validate(const Schedule& schedule);

struct NextTick {
  WallTime nominal = WallTime::never();
  WallTime fires_at = WallTime::never();
  std::string note;
};
// The first tick strictly after `t`, within start_at and end_at. nominal never = none. `schedule`
// is valid.
NextTick next_tick(const Schedule& schedule, WallTime t);
// What PutSchedule carries: the first tick of a new definition. That of `at` may lie in the past:
// then it is late, and the misfire policy decides.
NextTick first_tick(const Schedule& schedule, WallTime now);

// The next ticks after `from`, at most `count`, for people.
std::vector<PreviewTick> preview(const Schedule& schedule, WallTime from, int count);
// The ticks in [from, to), at most `limit`, each to fire; `next` = where to go on.
struct TickRange {
  std::vector<Tick> ticks;
  std::optional<WallTime> next;
};
TickRange ticks_between(const Schedule& schedule, WallTime from, WallTime to, int limit);

// What is to happen now to a schedule whose next_fire has come: its ticks from `next` to now by
// skip_before and the misfire policy, and the next one. The rows cover every tick of that time:
//   - before skip_before: one row, skip_reason;
//   - late by more than kMisfireGrace: by the misfire policy; folded ones have "missed: folded into
//     <nominal>", too old ones "missed: later than 24h", beyond the cap "missed: over the cap of
//     100", policy skip "missed: policy skip";
//   - the others fire.
// Consecutive ticks with one fate share a row (count 0 where counting would mean walking). Where
// the time zone is unknown here (an update of the system's database took it away) nothing is
// decided: no rows, the same next, to be tried again in kUnknownZoneRetry; its note says why.
struct FiringPlan {
  std::vector<Tick> ticks;  // at most 2 * kMaxMisfires
  NextTick next;
  std::int64_t steps = 0;  // calls of the calendar: the cost, which does not grow with the time
};
inline constexpr Duration kUnknownZoneRetry = std::chrono::minutes(1);
FiringPlan plan_firing(const ScheduleInfo& info, WallTime now);

// The fixed part of its jitter by which every tick of the schedule fires later: a hash of its name.
Duration jitter_of(const Schedule& schedule);

}  // namespace mainspring
