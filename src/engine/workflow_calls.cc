// Workflows and triggers of an engine, forwarded to the broker or the server.
#include "api/json.h"
#include "broker/triggers.h"
#include "broker/workflows.h"
#include "callbacks/signature.h"
#include "engine/checks.h"
#include "mainspring/triggers.h"
#include "mainspring/workflows.h"

namespace mainspring {

// -- workflows ------------------------------------------------------------------------------------

Result<StartedWorkflow> EngineWorkflows::start(WorkflowSpec spec) {
  MS_TRY_ASSIGN(const WorkflowStarted started, workflows_->start_workflow(std::move(spec)));
  return StartedWorkflow{started.id, started.duplicate};
}

Result<void> EngineWorkflows::signal(WorkflowId id, std::string name, std::string payload,
                                     std::string signal_id) {
  return workflows_->signal_workflow({.id = id,
                                      .name = std::move(name),
                                      .signal_id = std::move(signal_id),
                                      .payload = std::move(payload)});
}

Result<WorkflowInfo> EngineWorkflows::cancel(WorkflowId id, std::string reason) {
  return workflows_->cancel_workflow({.id = id, .reason = std::move(reason)});
}

Result<WorkflowInfo> EngineWorkflows::pause(WorkflowId id) {
  return workflows_->pause_workflow({.id = id, .paused = true});
}

Result<WorkflowInfo> EngineWorkflows::resume(WorkflowId id) {
  return workflows_->pause_workflow({.id = id, .paused = false});
}

Result<WorkflowInfo> EngineWorkflows::retry(WorkflowId id, std::string step, RetryMode mode,
                                            std::string result) {
  return workflows_->retry_workflow({.id = id,
                                     .step = std::move(step),
                                     .by_hand = mode == RetryMode::by_hand,
                                     .result = std::move(result)});
}

Result<StartedWorkflow> EngineWorkflows::fork(WorkflowId id, std::string step,
                                              std::optional<std::string> input, std::string key) {
  MS_TRY_ASSIGN(
      const WorkflowStarted started,
      workflows_->fork_workflow(
          {.id = id, .step = std::move(step), .input = std::move(input), .key = std::move(key)}));
  return StartedWorkflow{started.id, started.duplicate};
}

Result<WorkflowInfo> EngineWorkflows::get(WorkflowId id) {
  return workflows_->get_workflow(id);
}

Result<WorkflowInfo> EngineWorkflows::wait(WorkflowId id, Duration limit, std::stop_token stop) {
  return workflows_->wait_workflow(id, limit, std::move(stop));
}

Result<WorkflowPage> EngineWorkflows::list(const WorkflowList& list) {
  if (!list.name.empty()) MS_TRY(check_name("name", list.name));
  MS_TRY(check_limit(list.limit));
  MS_TRY(check_position("before", list.before));
  return workflows_->workflows({.name = list.name, .state = list.state}, list.limit, list.before);
}

Result<WorkflowStepPage> EngineWorkflows::steps(WorkflowId id, int limit, int after) {
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("after", after));
  return workflows_->workflow_steps(id, after, limit);
}

// -- triggers -------------------------------------------------------------------------------------

Result<void> EngineTriggers::put(Trigger trigger, std::string secret) {
  if (!trigger.http && !secret.empty()) {
    return invalid("secret", "secret: only a trigger with http has one");
  }
  if (trigger.http && trigger.http->auth == HookAuth::signature && !secret.empty()) {
    if (auto key = parse_signing_key(secret); !key)
      return invalid("secret", "secret: " + key.error().message);
  }
  MS_TRY(triggers_->put_trigger(std::move(trigger), secret, std::nullopt));
  return {};
}

Result<FiredTrigger> EngineTriggers::fire(const std::string& name, std::string body,
                                          std::string event) {
  MS_TRY(check_name("name", name));
  MS_TRY(check_json("body", body));
  MS_TRY_ASSIGN(const TriggerFired fired, triggers_->fire_trigger(name, {.event = std::move(event),
                                                                         .body = std::move(body)}));
  return FiredTrigger{fired.job, fired.duplicate};
}

Result<void> EngineTriggers::pause(const std::string& name, std::string reason) {
  MS_TRY(check_name("name", name));
  return triggers_->pause_trigger({.name = name, .paused = true, .reason = std::move(reason)});
}

Result<void> EngineTriggers::resume(const std::string& name) {
  MS_TRY(check_name("name", name));
  return triggers_->pause_trigger({.name = name, .paused = false});
}

Result<void> EngineTriggers::remove(const std::string& name) {
  MS_TRY(check_name("name", name));
  return triggers_->remove_trigger(name);
}

Result<TriggerInfo> EngineTriggers::get(const std::string& name) {
  MS_TRY(check_name("name", name));
  return triggers_->get_trigger(name);
}

Result<std::vector<TriggerInfo>> EngineTriggers::list(int limit, const std::string& after) {
  MS_TRY(check_limit(limit));
  return triggers_->triggers(after, limit);
}

Result<TriggerEventPage> EngineTriggers::ledger(const std::string& name, int limit,
                                                std::int64_t before) {
  MS_TRY(check_name("name", name));
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("before", before));
  return triggers_->trigger_events(name, limit, before);
}

}  // namespace mainspring
