// Shapes of workflows. See shapes.h for the contract of encode_… and decode_….
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/payload.h"
#include "mainspring/workflow.h"
#include "store/operations.h"

namespace mainspring {

// {"name", "input"?, "steps": [{"name", "after"?, "job" | "workflow" | "sleep" | "signal", "each"?,
// "if"?, "deadline"?, "on_failure"?, "undo"?, "undo_if_failed"?}], "undo_order"?, "deadline"?,
// "result"?, "key"?}. Checks the form only; see validate() for the rules.
Result<WorkflowSpec> decode_workflow(std::string_view body);
void encode_workflow(const WorkflowSpec& spec, std::string& out);
// Visits every step, and the steps of a sub-workflow after their step, with the path of the field:
// steps[0].workflow.steps[2]. Stops at the first error.
using OnStep = std::function<Result<void>(const std::string& field, const StepSpec& step)>;
Result<void> for_each_step(const WorkflowSpec& spec, const OnStep& on);
// {"id", "duplicate"}
void encode_workflow_started(const WorkflowStarted& started, std::string& out);
Result<WorkflowStarted> decode_workflow_started(std::string_view body);

// {"name", "id"?, "payload"?}
Result<SignalWorkflow> decode_signal_request(WorkflowId id, std::string_view body);
void encode_signal_request(const SignalWorkflow& request, std::string& out);
// {"id", "signal"}: the signal was accepted.
void encode_workflow_signalled(const SignalWorkflow& request, std::string& out);
// {"reason"?}; an empty body is no reason.
Result<CancelWorkflow> decode_cancel_workflow_request(WorkflowId id, std::string_view body);
void encode_cancel_workflow_request(const CancelWorkflow& request, std::string& out);
// {"step"?, "by_hand"?, "result"?}; an empty body is every step.
Result<RetryWorkflow> decode_retry_workflow_request(WorkflowId id, std::string_view body);
void encode_retry_workflow_request(const RetryWorkflow& request, std::string& out);
// {"step", "input"?, "key"?}
Result<ForkWorkflow> decode_fork_request(WorkflowId id, std::string_view body);
void encode_fork_request(const ForkWorkflow& request, std::string& out);

// {"id", "name", "key"?, "state", "paused", "reason"?, "input"?, "result"?, "steps": {"all",
// "completed", …}, "started_at", "finished_at"?, "deadline_at"?, "version", "forked_from"?: {"id",
// "step"}, "parent"?: {"workflow", "step"}}; masked: null for input and result, and no reason,
// which may contain a job's error.
void encode_workflow_info(const WorkflowInfo& info, std::string& out,
                          Payload payload = Payload::shown);
Result<WorkflowInfo> decode_workflow_info(std::string_view body);
// {"workflows": […], "next": id | null}
void encode_workflow_page(const WorkflowPage& page, std::string& out,
                          Payload payload = Payload::shown);
Result<WorkflowPage> decode_workflow_page(std::string_view body);
// {"steps": [{"number", "name", "state", "after"?, "job"?, "undo_job"?, "workflow"?, "of"?,
// "index"?, "result"?, "reason"?, "started_at"?, "ended_at"?, "taken_over"?, "job_state"?,
// "attempt"?, "max_attempts"?, "worker"?, "complete_by"?}], "next": number | null}
void encode_workflow_steps(const WorkflowStepPage& page, std::string& out,
                           Payload payload = Payload::shown);
Result<WorkflowStepPage> decode_workflow_steps(std::string_view body);

// -- for the rows of stores

bool read_step_spec(JsonReader& in, StepSpec& step);
void write_step_spec(JsonWriter& w, const StepSpec& step);

}  // namespace mainspring
