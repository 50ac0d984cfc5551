// Shared by the commands of schedules and timers: timers are schedules that run continuously.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/schedule_shapes.h"
#include "broker/jobs.h"
#include "cli/command.h"

namespace mainspring::cli {

// Calls `see` for all schedules by name, page by page, until it has returned true `limit` times.
Result<void> for_each_schedule(Jobs& jobs, std::int64_t limit,
                               const std::function<bool(const ScheduleInfo&)>& see);
Result<void> put_and_print(const Invocation& invocation, Io& io, Jobs& jobs,
                           PutScheduleRequest request);
// "NAME what", or the schedule as JSON.
Result<void> print_change(const Invocation& invocation, Io& io, Jobs& jobs, const std::string& name,
                          std::string_view what);
// Errors: conflict, with the ledger's reason, if the run was skipped.
Result<JobId> run_now(Jobs& jobs, const std::string& name, TickSource source,
                      std::optional<Overlap> overlap);
// Removes the schedules of argument NAME.
Result<int> remove_schedules(const Invocation& invocation, Io& io);
// "30 2 * * *", "every 5m", "at 2026-…".
std::string when_of(const Schedule& schedule, const Io& io);
// "41, 42 and 7 more".
std::string ids_text(const std::vector<JobId>& ids);
// The schedule as its sheet, or as JSON.
void print_schedule(const Invocation& invocation, Io& io, const ScheduleInfo& info);

// The schedules to pause or resume by flags; nullopt = named ones. Errors: invalid_argument.
Result<std::optional<ScheduleSet>> schedule_set_of(const Invocation& invocation);
Result<int> pause_schedule_set(const Invocation& invocation, Io& io, Jobs& jobs,
                               PauseSchedules request);

}  // namespace mainspring::cli
