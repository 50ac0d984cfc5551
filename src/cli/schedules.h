// What the commands of schedules and of timers share: timers are schedules that run continuously.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/schedule_shapes.h"
#include "broker/jobs.h"
#include "cli/command.h"

namespace mainspring::cli {

// All of them, by name, page by page, until `see` has said true `limit` times.
Result<void> for_each_schedule(Jobs& jobs, std::int64_t limit,
                               const std::function<bool(const ScheduleInfo&)>& see);
Result<void> put_and_print(const Invocation& invocation, Io& io, Jobs& jobs,
                           PutScheduleRequest request);
// "NAME what", or the schedule as JSON.
Result<void> print_change(const Invocation& invocation, Io& io, Jobs& jobs, const std::string& name,
                          std::string_view what);
// Errors: conflict, with the reason of the ledger, when it was skipped.
Result<JobId> run_now(Jobs& jobs, const std::string& name, TickSource source,
                      std::optional<Overlap> overlap);
// Those of argument NAME.
Result<int> remove_schedules(const Invocation& invocation, Io& io);
// "30 2 * * *", "every 5m", "at 2026-…".
std::string when_of(const Schedule& schedule);
// "41, 42 and 7 more".
std::string ids_text(const std::vector<JobId>& ids);
// The schedule as its sheet, or as JSON.
void print_schedule(const Invocation& invocation, Io& io, const ScheduleInfo& info);

// What pause and resume are for; nullopt = the schedules that are named. Errors: invalid_argument.
Result<std::optional<ScheduleSet>> schedule_set_of(const Invocation& invocation);
Result<int> pause_schedule_set(const Invocation& invocation, Io& io, Jobs& jobs,
                               PauseSchedules request);

}  // namespace mainspring::cli
