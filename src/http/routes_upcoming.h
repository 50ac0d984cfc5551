// The rows of the table of routes for upcoming ticks and many schedules. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kUpcomingQuery[] = {
    {"within", R"({"type":"string","default":"24h","example":"7d"})",
     "How far to look ahead, at most 168h."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":1000})",
     "Maximum number of ticks."}};
inline constexpr Success kUpcomingOk[] = {
    {200, "Upcoming", "Ticks, due jobs and windows of worker pools."}};
inline constexpr Success kScheduleChangesOk[] = {
    {200, "ScheduleChanges", "Changed, unchanged and missing schedules."}};

inline constexpr Route kUpcomingRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/upcoming",
     .id = "upcoming",
     .summary = "List ticks of all schedules, due jobs by hour, and windows of worker pools",
     .plan = &plan_upcoming,
     .access = {Verb::read, On::plan},
     .successes = kUpcomingOk,
     .query = kUpcomingQuery},
    {.method = "POST",
     .pattern = "/v1/schedules/pause",
     .id = "pause_schedules",
     .summary = "Pause many schedules",
     .plan = &plan_pause_schedules,
     .access = {Verb::schedule, On::plan},
     .body = BodyRule::required,
     .request_schema = "ScheduleSet",
     .successes = kScheduleChangesOk},
    {.method = "POST",
     .pattern = "/v1/schedules/resume",
     .id = "resume_schedules",
     .summary = "Resume many schedules",
     .plan = &plan_resume_schedules,
     .access = {Verb::schedule, On::plan},
     .body = BodyRule::required,
     .request_schema = "ScheduleSet",
     .successes = kScheduleChangesOk},
};

}  // namespace mainspring::http
