// The rows of the table of routes for dead jobs. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kDeadGroups[] = {
    {"queue", R"({"type":"string"})", "Only jobs of this queue."},
    {"kind", R"({"type":"string"})", "Only jobs of this kind."},
    {"tag", R"({"type":"string"})", "Only jobs with this tag."},
    {"since", R"({"type":"string","format":"date-time"})", "Only jobs that died since then."}};
inline constexpr QueryParameter kListDead[] = {
    kDeadGroups[0],
    kDeadGroups[1],
    kDeadGroups[2],
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "Maximum number of jobs. A shorter page need not be the last."},
    {"cursor", R"({"type":"string"})", "next_cursor of the previous page."},
    {"fingerprint", R"({"type":"string","pattern":"^[0-9a-f]{16}$"})",
     "Only jobs of this group. A page can be empty and not be the last."}};

inline constexpr Success kDeadPageOk[] = {{200, "JobPage", "One page, newest first."}};
inline constexpr Success kDeadGroupsOk[] = {{200, "DeadGroups", "The largest group first."}};
inline constexpr Success kRedriveOk[] = {
    {200, "RedriveResponse", "Number of jobs made available."}};
inline constexpr Success kRedriveStarted[] = {
    {201, "EnqueueResponse", "The job that redrives them."},
    {200, "EnqueueResponse", "A redrive of the same jobs is running."}};

inline constexpr ErrorCode kRedriveErrors[] = {ErrorCode::overloaded, ErrorCode::storage_full};

inline constexpr Route kDeadRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/dead",
     .id = "list_dead",
     .summary = "List dead jobs, newest first",
     .plan = &plan_list_dead,
     .access = {Verb::read, On::plan},
     .successes = kDeadPageOk,
     .query = kListDead},
    {.method = "GET",
     .pattern = "/v1/dead/groups",
     .id = "dead_groups",
     .summary = "Group dead jobs by error",
     .plan = &plan_dead_groups,
     .access = {Verb::read, On::plan},
     .successes = kDeadGroupsOk,
     .query = kDeadGroups},
    {.method = "POST",
     .pattern = "/v1/dead/redrive",
     .id = "redrive",
     .summary = "Redrive dead jobs by filter",
     .plan = &plan_redrive,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "RedriveRequest",
     .successes = kRedriveOk},
    {.method = "POST",
     .pattern = "/v1/redrives",
     .id = "start_redrive",
     .summary = "Redrive dead jobs at a rate or by canary, in a job",
     .plan = &plan_start_redrive,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "RedriveOrder",
     .successes = kRedriveStarted,
     .errors = kRedriveErrors},
};

}  // namespace mainspring::http
