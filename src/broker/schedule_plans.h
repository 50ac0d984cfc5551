// Converts requests about schedules to operations: the part that needs the calendar. Used by the
// broker's own calls and by the HTTP server.
#pragma once

#include "broker/jobs.h"

namespace mainspring {

// Errors: those of validate(Schedule).
Result<PutSchedule> plan_put(Schedule schedule, std::optional<bool> paused, WallTime now,
                             RunCount runs = RunCount::keep);
// A run now. `source`: trigger or wake.
FireSchedule plan_trigger(std::string name, TickSource source, std::optional<Overlap> overlap);
// The first ticks of [from, to), up to the limit of one operation, and where to continue. `info` is
// the schedule now. Errors: invalid_argument (from, to), overloaded (kMaxBuffered of its jobs
// wait).
struct BackfillPlan {
  FireSchedule fire;
  std::optional<WallTime> next;
};
Result<BackfillPlan> plan_backfill(const ScheduleInfo& info, const Backfill& request);
// Checks that the name is not one of the engine's own leases. Errors: invalid_argument.
Result<void> check_lease_name(const std::string& name);
// Checks every rule of an acquire from outside. Errors: invalid_argument.
Result<void> validate(const AcquireLease& request);
Result<void> validate(const RenewLease& request);
Result<void> validate(const ReleaseLease& request);
// 1 to kMaxPreview. Errors: invalid_argument.
Result<void> check_preview_count(int count);

}  // namespace mainspring
