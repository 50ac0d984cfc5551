// The rows of the table of routes that are about dead jobs. Of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kDeadGroups[] = {
    {"queue", R"({"type":"string"})", "Only jobs of this queue."},
    {"kind", R"({"type":"string"})", "Only jobs of this kind."},
    {"tag", R"({"type":"string"})", "Only jobs with this tag."}};
inline constexpr QueryParameter kListDead[] = {
    kDeadGroups[0],
    kDeadGroups[1],
    kDeadGroups[2],
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "At most so many jobs. A page may be shorter and still not be the last."},
    {"cursor", R"({"type":"string"})", "The next_cursor of the page before."},
    {"fingerprint", R"({"type":"string","pattern":"^[0-9a-f]{16}$"})",
     "Only jobs of this group. A page may then be short, even empty, and not be the last."}};

inline constexpr Success kDeadPageOk[] = {{200, "JobPage", "One page, newest first."}};
inline constexpr Success kDeadGroupsOk[] = {{200, "DeadGroups", "The largest group first."}};
inline constexpr Success kRedriveOk[] = {{200, "RedriveResponse", "How many became available."}};
inline constexpr Success kRedriveStarted[] = {
    {201, "EnqueueResponse", "The job that redrives them."},
    {200, "EnqueueResponse", "One for the same jobs is under way: that one."}};

inline constexpr ErrorCode kRedriveErrors[] = {ErrorCode::overloaded, ErrorCode::storage_full};

inline constexpr Route kDeadRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/dead",
     .id = "list_dead",
     .summary = "The dead letter, newest first, page by page",
     .plan = &plan_list_dead,
     .access = {Verb::read, On::plan},
     .successes = kDeadPageOk,
     .query = kListDead},
    {.method = "GET",
     .pattern = "/v1/dead/groups",
     .id = "dead_groups",
     .summary = "Dead jobs by what they died of",
     .plan = &plan_dead_groups,
     .access = {Verb::read, On::plan},
     .successes = kDeadGroupsOk,
     .query = kDeadGroups},
    {.method = "POST",
     .pattern = "/v1/dead/redrive",
     .id = "redrive",
     .summary = "Make dead jobs available again, by filter",
     .plan = &plan_redrive,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "RedriveRequest",
     .successes = kRedriveOk},
    {.method = "POST",
     .pattern = "/v1/redrives",
     .id = "start_redrive",
     .summary = "Make dead jobs available again one by one, at a rate, by canary: a job does it",
     .plan = &plan_start_redrive,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "RedriveOrder",
     .successes = kRedriveStarted,
     .errors = kRedriveErrors},
};

}  // namespace mainspring::http
