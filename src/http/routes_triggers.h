// The rows of the table of routes for triggers. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kListTriggers[] = {
    {"after", R"({"type":"string"})", "Start after this name: next of the previous page."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})", "Maximum number."}};
inline constexpr QueryParameter kTriggerEventsQuery[] = {
    {"before", R"({"type":"integer","format":"int64","minimum":1})",
     "Only rows before this number: next of the previous page."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})", "Maximum number."}};

inline constexpr Success kPutTriggerOk[] = {
    {201, "Trigger", "Created; with a generated secret, which is shown only here."},
    {200, "Trigger", "It existed; see outcome."}};
inline constexpr Success kGetTriggerOk[] = {{200, "Trigger", "The trigger, without its secret."}};
inline constexpr Success kTriggersOk[] = {{200, "TriggerList", "One page, by name."}};
inline constexpr Success kTriggerRemovedOk[] = {
    {200, "TriggerRemoved", "Removed with its ledger. Its jobs stay."}};
inline constexpr Success kTriggerFiredOk[] = {
    {201, "TriggerFired", "The job is on disk."},
    {200, "TriggerFired", "The event had already fired: the existing job."}};
inline constexpr Success kTriggerEventsOk[] = {{200, "TriggerLedger", "One page, newest first."}};

inline constexpr ErrorCode kTriggerErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kPutTriggerErrors[] = {ErrorCode::too_large, ErrorCode::storage_full};
inline constexpr ErrorCode kFireErrors[] = {ErrorCode::not_found, ErrorCode::conflict,
                                            ErrorCode::too_large, ErrorCode::storage_full};

inline constexpr Route kTriggerRoutes[] = {
    {.method = "PUT",
     .pattern = "/v1/triggers/{name}",
     .id = "put_trigger",
     .summary = "Create or change a trigger",
     .plan = &plan_put_trigger,
     .access = {Verb::schedule, On::plan},
     .body = BodyRule::required,
     .request_schema = "TriggerDefinition",
     .successes = kPutTriggerOk,
     .errors = kPutTriggerErrors},
    {.method = "GET",
     .pattern = "/v1/triggers",
     .id = "list_triggers",
     .summary = "List triggers by name",
     .plan = &plan_list_triggers,
     .access = {Verb::read, On::plan},
     .successes = kTriggersOk,
     .query = kListTriggers},
    {.method = "GET",
     .pattern = "/v1/triggers/{name}",
     .id = "get_trigger",
     .summary = "Get a trigger",
     .plan = &plan_get_trigger,
     .access = {Verb::read, On::plan},
     .successes = kGetTriggerOk,
     .errors = kTriggerErrors},
    {.method = "DELETE",
     .pattern = "/v1/triggers/{name}",
     .id = "remove_trigger",
     .summary = "Remove a trigger and its ledger",
     .plan = &plan_remove_trigger,
     .access = {Verb::schedule, On::plan},
     .successes = kTriggerRemovedOk,
     .errors = kTriggerErrors},
    {.method = "POST",
     .pattern = "/v1/triggers/{name}/pause",
     .id = "pause_trigger",
     .summary = "Pause a trigger",
     .plan = &plan_pause_trigger,
     .access = {Verb::schedule, On::plan},
     .body = BodyRule::optional,
     .request_schema = "PauseRequest",
     .successes = kGetTriggerOk,
     .errors = kTriggerErrors},
    {.method = "POST",
     .pattern = "/v1/triggers/{name}/resume",
     .id = "resume_trigger",
     .summary = "Resume a trigger",
     .plan = &plan_resume_trigger,
     .access = {Verb::schedule, On::plan},
     .successes = kGetTriggerOk,
     .errors = kTriggerErrors},
    {.method = "POST",
     .pattern = "/v1/triggers/{name}/fire",
     .id = "fire_trigger",
     .summary = "Fire a trigger",
     .plan = &plan_fire_trigger,
     .access = {Verb::schedule, On::plan},
     .body = BodyRule::optional,
     .request_schema = "FireTriggerRequest",
     .successes = kTriggerFiredOk,
     .errors = kFireErrors},
    {.method = "GET",
     .pattern = "/v1/triggers/{name}/ledger",
     .id = "trigger_events",
     .summary = "List the events that fired, newest first",
     .plan = &plan_trigger_events,
     .access = {Verb::read, On::plan},
     .successes = kTriggerEventsOk,
     .errors = kTriggerErrors,
     .query = kTriggerEventsQuery},
    {.method = "POST",
     .pattern = "/hooks/{name}",
     .id = "hook",
     .summary = "Fire an HTTP trigger with its secret or signature",
     .plan = &plan_hook,
     .access = On::open,
     .body = BodyRule::bytes,
     .request_type = "*/*",
     .request_schema = "HookBody",
     .successes = kTriggerFiredOk,
     .errors = kFireErrors,
     .headers = true,
     .any_query = true,
     .own_secret = true},
};

}  // namespace mainspring::http
