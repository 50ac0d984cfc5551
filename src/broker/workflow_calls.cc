// Workflows: input checks, and the broker's calls.
#include <fmt/format.h>

#include "api/json.h"
#include "api/workflow_shapes.h"
#include "broker/sync_call.h"
#include "broker/workflow_calls.h"
#include "model/callback.h"
#include "workflow/step_rows.h"

namespace mainspring {

Result<StartWorkflow> check_workflow(WorkflowSpec spec) {
  MS_TRY_ASSIGN(auto plan, workflow::plan(spec));
  const auto check = [](const std::string& field, const StepSpec& step) -> Result<void> {
    if (step.job) MS_TRY(check_not_reserved(field + ".job.queue", step.job->queue));
    if (step.undo) MS_TRY(check_not_reserved(field + ".undo.queue", step.undo->queue));
    return {};
  };
  MS_TRY(for_each_step(spec, check));
  auto prepared =
      std::make_shared<const workflow::Prepared>(workflow::prepare(spec, std::move(plan)));
  return StartWorkflow{.spec = std::move(spec), .prepared = std::move(prepared)};
}

Result<void> validate(const SignalWorkflow& request) {
  if (request.name.empty() || request.name.size() > kMaxStepNameBytes)
    return invalid("name", fmt::format("name must have 1 to {} bytes", kMaxStepNameBytes));
  if (request.signal_id.size() > kMaxKeyBytes || !is_utf8(request.signal_id))
    return invalid("id", fmt::format("id must be UTF-8 of at most {} bytes", kMaxKeyBytes));
  if (request.payload.empty()) return {};
  MS_TRY(check_json("payload", request.payload));
  if (request.payload.size() <= kMaxSignalBytes) return {};
  return Error{
      ErrorCode::too_large,
      fmt::format("payload has {} bytes: at most {}", request.payload.size(), kMaxSignalBytes),
      "payload"};
}

Result<void> validate(const ForkWorkflow& request) {
  if (request.step.empty()) return invalid("step", "step must be given: the step to start from");
  if (request.step.size() > kMaxStepNameBytes)
    return invalid("step", fmt::format("step must have at most {} bytes", kMaxStepNameBytes));
  if (request.key.size() > kMaxKeyBytes || !is_utf8(request.key))
    return invalid("key", fmt::format("key must be UTF-8 of up to {} bytes", kMaxKeyBytes));
  if (request.key_for < Duration(0) || request.key_for > kMaxWorkflowKeyFor)
    return invalid("key_for", "key_for must be 0s to 8760h");
  if (!request.input) return {};
  MS_TRY(check_json("input", *request.input));
  if (request.input->size() <= kMaxArgsBytes) return {};
  return Error{ErrorCode::too_large,
               fmt::format("input has {} bytes: at most {}", request.input->size(), kMaxArgsBytes),
               "input"};
}

Result<void> validate(const RetryWorkflow& request) {
  if (request.step.size() > kMaxStepNameBytes)
    return invalid("step", fmt::format("step must have at most {} bytes", kMaxStepNameBytes));
  if (request.result.empty()) return {};
  if (!request.by_hand || request.step.empty()) {
    return invalid("result", "result: needs step and by_hand");
  }
  MS_TRY(check_json("result", request.result));
  if (request.result.size() <= kMaxResultBytes) return {};
  return Error{
      ErrorCode::too_large,
      fmt::format("result has {} bytes: at most {}", request.result.size(), kMaxResultBytes),
      "result"};
}

Result<WorkflowStarted> Broker::start_workflow(WorkflowSpec spec) {
  MS_TRY_ASSIGN(auto start, check_workflow(std::move(spec)));
  return call<WorkflowStarted>(std::move(start));
}

Result<void> Broker::signal_workflow(SignalWorkflow request) {
  MS_TRY(validate(request));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<WorkflowInfo> Broker::cancel_workflow(CancelWorkflow request) {
  request.reason = std::string(cut_text(request.reason, kMaxTextBytes));
  return call<WorkflowInfo>(std::move(request));
}

Result<WorkflowInfo> Broker::pause_workflow(PauseWorkflow request) {
  return call<WorkflowInfo>(std::move(request));
}

Result<WorkflowInfo> Broker::retry_workflow(RetryWorkflow request) {
  MS_TRY(validate(request));
  return call<WorkflowInfo>(std::move(request));
}

Result<WorkflowStarted> Broker::fork_workflow(ForkWorkflow request) {
  MS_TRY(validate(request));
  return call<WorkflowStarted>(std::move(request));
}

Result<WorkflowInfo> Broker::get_workflow(WorkflowId id) {
  return store_.workflow(id);
}

Result<WorkflowInfo> Broker::wait_workflow(WorkflowId id, Duration wait, std::stop_token stop) {
  wait_until(watch_of(id), wait, std::move(stop), [&] {
    const auto info = store_.workflow(id);
    return !info || is_at_rest(info->state);
  });
  return store_.workflow(id);
}

Result<WorkflowPage> Broker::workflows(const WorkflowFilter& filter, int limit, WorkflowId before) {
  return store_.workflows(filter, limit, before);
}

Result<WorkflowStepPage> Broker::workflow_steps(WorkflowId id, int after, int limit) {
  return store_.workflow_steps(id, after, limit);
}

// -- after a batch --------------------------------------------------------------------------------

void Broker::tell_workflows(const Effects& effects, std::vector<std::function<void()>>& answers) {
  std::vector<JobId> changed;
  for (const WorkflowId id : effects.workflows) changed.push_back(watch_of(id));
  tell_ended(changed, answers);
  for (const std::string& alarm : effects.alarms) {
    alarms_total_.add(1);
    log_.error("a workflow is parked and needs an operator", {{"what", alarm}});
  }
}

}  // namespace mainspring
