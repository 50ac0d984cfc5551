// The rows of the table of routes for workflows. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kWorkflowWait[] = {
    {"wait", R"({"type":"string","example":"30s"})",
     "Time to wait until the workflow ends or is parked, at most 60s."}};
inline constexpr QueryParameter kListWorkflows[] = {
    {"name", R"({"type":"string"})", "Only workflows of this name."},
    {"state", R"({"$ref":"#/components/schemas/WorkflowState"})", "Only workflows in this state."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "Maximum number. A shorter page need not be the last."},
    {"before", R"({"type":"integer","format":"int64","minimum":1})",
     "Only workflows before this id: next of the previous page."}};
inline constexpr QueryParameter kListSteps[] = {
    {"after", R"({"type":"integer","minimum":0,"default":0})",
     "Start after the step with this number: next of the previous page."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})", "Maximum number."}};

inline constexpr Success kWorkflowStartedOk[] = {
    {201, "WorkflowStarted", "On disk, with its first jobs."},
    {200, "WorkflowStarted", "A workflow with its name and key exists."}};
inline constexpr Success kWorkflowsOk[] = {
    {200, "WorkflowList", "One page, newest first, without inputs and results."}};
inline constexpr Success kWorkflowOk[] = {{200, "Workflow", "The workflow."}};
inline constexpr Success kWorkflowStateOk[] = {
    {200, "Workflow", "The workflow, without input and result."}};
inline constexpr Success kStepsOk[] = {{200, "WorkflowStepList", "One page, by number."}};
inline constexpr Success kSignalledOk[] = {
    {200, "WorkflowSignalled", "On disk. A step receives it now or later."}};

inline constexpr Success kForkedOk[] = {
    {201, "WorkflowStarted", "The new workflow is on disk, with its first jobs."},
    {200, "WorkflowStarted", "A workflow with its name and key exists."}};

inline constexpr ErrorCode kStartErrors[] = {ErrorCode::too_large, ErrorCode::storage_full};
inline constexpr ErrorCode kWorkflowErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kChangeErrors[] = {ErrorCode::not_found, ErrorCode::conflict};
inline constexpr ErrorCode kSignalErrors[] = {ErrorCode::not_found, ErrorCode::conflict,
                                              ErrorCode::too_large};
inline constexpr ErrorCode kForkErrors[] = {ErrorCode::not_found, ErrorCode::conflict,
                                            ErrorCode::expired, ErrorCode::too_large,
                                            ErrorCode::storage_full};

inline constexpr Route kWorkflowRoutes[] = {
    {.method = "POST",
     .pattern = "/v1/workflows",
     .id = "start_workflow",
     .summary = "Start a workflow: steps that are all completed or all undone",
     .plan = &plan_start_workflow,
     .access = {Verb::enqueue, On::plan},
     .body = BodyRule::required,
     .batch = true,
     .request_schema = "WorkflowDefinition",
     .successes = kWorkflowStartedOk,
     .errors = kStartErrors},
    {.method = "GET",
     .pattern = "/v1/workflows",
     .id = "list_workflows",
     .summary = "List workflows, newest first",
     .plan = &plan_list_workflows,
     .access = {Verb::read, On::plan},
     .successes = kWorkflowsOk,
     .query = kListWorkflows},
    {.method = "GET",
     .pattern = "/v1/workflows/{id}",
     .id = "get_workflow",
     .summary = "Get a workflow and its result",
     .plan = &plan_get_workflow,
     .access = {Verb::read, On::plan},
     .successes = kWorkflowOk,
     .errors = kWorkflowErrors,
     .query = kWorkflowWait},
    {.method = "GET",
     .pattern = "/v1/workflows/{id}/steps",
     .id = "workflow_steps",
     .summary = "List the steps of a workflow",
     .plan = &plan_workflow_steps,
     .access = {Verb::read, On::plan},
     .successes = kStepsOk,
     .errors = kWorkflowErrors,
     .query = kListSteps},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/signal",
     .id = "signal_workflow",
     .summary = "Send a signal to a workflow",
     .plan = &plan_signal_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::required,
     .request_schema = "WorkflowSignal",
     .successes = kSignalledOk,
     .errors = kSignalErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/cancel",
     .id = "cancel_workflow",
     .summary = "Stop a workflow and undo what it did",
     .plan = &plan_cancel_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "CancelRequest",
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/pause",
     .id = "pause_workflow",
     .summary = "Pause a workflow; running jobs continue",
     .plan = &plan_pause_workflow,
     .access = {Verb::admin, On::plan},
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/resume",
     .id = "resume_workflow",
     .summary = "Resume a workflow",
     .plan = &plan_resume_workflow,
     .access = {Verb::admin, On::plan},
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/retry",
     .id = "retry_workflow",
     .summary = "Retry a parked workflow, or mark a step as done",
     .plan = &plan_retry_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "WorkflowRetry",
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/fork",
     .id = "fork_workflow",
     .summary = "Start a new workflow from a step of an ended one",
     .plan = &plan_fork_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::required,
     .request_schema = "WorkflowFork",
     .successes = kForkedOk,
     .errors = kForkErrors},
};

}  // namespace mainspring::http
