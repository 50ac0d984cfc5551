// The rows of the table of routes that are about workflows. Of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kWorkflowWait[] = {
    {"wait", R"({"type":"string","example":"30s"})",
     "How long to wait until it has ended or is parked, at most 60s. The answer is the workflow as "
     "it is then."}};
inline constexpr QueryParameter kListWorkflows[] = {
    {"name", R"({"type":"string"})", "Only workflows of this name."},
    {"state", R"({"$ref":"#/components/schemas/WorkflowState"})", "Only workflows in this state."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "At most so many. A page may be shorter and still not be the last."},
    {"before", R"({"type":"integer","format":"int64","minimum":1})",
     "Only those before this id: the next of the page before."}};
inline constexpr QueryParameter kListSteps[] = {
    {"after", R"({"type":"integer","minimum":0,"default":0})",
     "Begin behind the step with this number: the next of the page before."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "At most so many."}};

inline constexpr Success kWorkflowStartedOk[] = {
    {201, "WorkflowStarted", "It is on disk, and its first jobs with it."},
    {200, "WorkflowStarted", "One with its name and key had been started."}};
inline constexpr Success kWorkflowsOk[] = {
    {200, "WorkflowList", "One page, newest first, without inputs and results."}};
inline constexpr Success kWorkflowOk[] = {{200, "Workflow", "The workflow."}};
inline constexpr Success kWorkflowStateOk[] = {
    {200, "Workflow", "As it is now, without its input and result."}};
inline constexpr Success kStepsOk[] = {{200, "WorkflowStepList", "One page, by number."}};
inline constexpr Success kSignalledOk[] = {
    {200, "WorkflowSignalled", "It is on disk; a step takes it, or will."}};

inline constexpr Success kForkedOk[] = {
    {201, "WorkflowStarted", "The new one is on disk, and its first jobs with it."},
    {200, "WorkflowStarted", "One with its name and key had been started."}};

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
     .summary = "Start a workflow: steps that are finished or undone as a whole",
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
     .summary = "Workflows, newest first, page by page",
     .plan = &plan_list_workflows,
     .access = {Verb::read, On::plan},
     .successes = kWorkflowsOk,
     .query = kListWorkflows},
    {.method = "GET",
     .pattern = "/v1/workflows/{id}",
     .id = "get_workflow",
     .summary = "A workflow and its result",
     .plan = &plan_get_workflow,
     .access = {Verb::read, On::plan},
     .successes = kWorkflowOk,
     .errors = kWorkflowErrors,
     .query = kWorkflowWait},
    {.method = "GET",
     .pattern = "/v1/workflows/{id}/steps",
     .id = "workflow_steps",
     .summary = "The steps of a workflow, page by page",
     .plan = &plan_workflow_steps,
     .access = {Verb::read, On::plan},
     .successes = kStepsOk,
     .errors = kWorkflowErrors,
     .query = kListSteps},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/signal",
     .id = "signal_workflow",
     .summary = "Tell a workflow what a step of it waits for",
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
     .summary = "Begin no steps and undo nothing; what runs goes on",
     .plan = &plan_pause_workflow,
     .access = {Verb::admin, On::plan},
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/resume",
     .id = "resume_workflow",
     .summary = "Let a paused workflow go on",
     .plan = &plan_resume_workflow,
     .access = {Verb::admin, On::plan},
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/retry",
     .id = "retry_workflow",
     .summary = "Try the undoing of a parked workflow again, or take it as done",
     .plan = &plan_retry_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "WorkflowRetry",
     .successes = kWorkflowStateOk,
     .errors = kChangeErrors},
    {.method = "POST",
     .pattern = "/v1/workflows/{id}/fork",
     .id = "fork_workflow",
     .summary = "Begin one that has ended anew from a step, as a new workflow",
     .plan = &plan_fork_workflow,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::required,
     .request_schema = "WorkflowFork",
     .successes = kForkedOk,
     .errors = kForkErrors},
};

}  // namespace mainspring::http
