// Shapes of schedules, their state and their ledger. See shapes.h for what encode_… and decode_…
// promise.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mainspring/schedule.h"

namespace mainspring {

// The definition:
//   {"name", "cron" | "every": "5m" | "at": "…", "time_zone"?, "job": {…}, "misfire"?: "once",
//    "misfire_window"?: "24h", "misfire_cap"?: 100, "overlap"?: "skip", "jitter"?: "0s",
//    "start_at"?, "end_at"?, "max_runs"?, "pause_on_failure"?,
//    "continuous"?: {"timeout": "20m", "margin": "60s", "handoff": "30s"}}
// with "job" as in POST /v1/jobs. The store keeps it in this form.
void encode_schedule(const Schedule& schedule, std::string& out);
// Strict in form; the laws of schedules are validate() in model/schedule.h. Without a name, it is
// "".
Result<Schedule> decode_schedule(std::string_view body);

}  // namespace mainspring
