// Schedules from files and flags, for `schedules set` and `preview`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/schedule_shapes.h"
#include "cli/command.h"

namespace mainspring::cli {

// The definitions of a file: one JSON document, possibly over several lines, or one per line.
// `name` is for a document without one; "" = each must have one. All are checked before any is
// used. Errors: invalid_argument and too_large, with file and line.
Result<std::vector<PutScheduleRequest>> schedules_of_file(std::string_view file,
                                                          std::string_view text,
                                                          const std::string& name);

// Reads cron, every, at, time-zone, misfire…, overlap, jitter, start-at, end-at, max-runs,
// pause-on-failure. Leaves fields of missing flags unchanged.
Result<void> read_schedule_flags(const Invocation& invocation, Schedule& schedule);
// Reads queue, kind, args and the flags of job_options.h.
Result<void> read_template_flags(const Invocation& invocation, NewJob& job);
// "misfire_window 1s: must …" becomes "--misfire-window 1s: must …".
Error with_schedule_flags(Error error);

}  // namespace mainspring::cli
