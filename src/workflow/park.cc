// Workflow rules: parking. An undo job that died, or a failed step that must not be undone for it,
// parks its workflow. The workflow continues after an operator has intervened.
#include <fmt/format.h>

#include "workflow/rules.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;

void WorkflowRules::park(Open& w) {
  w.record.state = WorkflowState::parked;
  w.changed = true;
  if (w.summary.parent.workflow != 0) tell(Tell::parked, w.record.id);
}

// Running steps continue; steps that would start are held: see begin_ready().
void WorkflowRules::park_for(Open& w, int step, const StepDefinition& definition) {
  const std::string& reason = w.known_status(step).reason;
  rows_.put(w.record.id, WorkflowRow::stuck, step, "");
  ++w.summary.stuck;
  w.changed = true;
  alarms_.push_back(
      fmt::format("workflow {}, step {}: {}", w.record.id, definition.spec.name, reason));
  if (w.record.state == WorkflowState::parked) return;
  w.summary.reason = fmt::format("step {}: {}", definition.spec.name, reason);
  park(w);
}

// The workflow is undone instead.
void WorkflowRules::forget_stuck(Open& w) {
  if (w.summary.stuck == 0) return;
  for (const auto& [step, nothing] :
       rows_.rows(w.record.id, WorkflowRow::stuck, WorkflowRows::Order::up, INT32_MAX))
    rows_.remove(w.record.id, WorkflowRow::stuck, step);
  w.summary.stuck = 0;
  if (w.summary.parent.workflow != 0) tell(Tell::goes_on, w.record.id);
}

// -- operator actions -----------------------------------------------------------------------------

Result<WorkflowInfo> WorkflowRules::retry(const RetryWorkflow& op) {
  MS_TRY_ASSIGN(Open * w, open_within(op.id, op.within));
  if (w->record.state != WorkflowState::parked && w->summary.parked == 0) {
    return Error{ErrorCode::conflict,
                 fmt::format("workflow {} is {}, not parked", op.id, to_string(w->record.state))};
  }
  if (!op.result.empty() && w->summary.stuck == 0) {
    return Error{ErrorCode::conflict,
                 fmt::format("step \"{}\" of workflow {} is not a failed job: it takes no result",
                             op.step, op.id),
                 "result"};
  }
  MS_TRY_ASSIGN(const bool stuck, retry_stuck(*w, op.step, op.by_hand, op.result));
  bool undos = false;
  if (op.result.empty()) {  // undo jobs and sub-workflow steps have no result
    MS_TRY_ASSIGN(undos, retry_undos(*w, op.step, op.by_hand));
  }
  if (!stuck && !undos) {
    return Error{
        ErrorCode::not_found,
        fmt::format("workflow {} has no failed undo of \"{}\", and that step did not park it",
                    op.id, op.step)};
  }
  MS_TRY(settle());
  return info(*w);
}

Result<bool> WorkflowRules::retry_steps(Open& w, const std::string& name, bool by_hand) {
  MS_TRY_ASSIGN(const bool stuck, retry_stuck(w, name, by_hand, ""));
  MS_TRY_ASSIGN(const bool undos, retry_undos(w, name, by_hand));
  return stuck || undos;
}

Result<bool> WorkflowRules::retry_stuck(Open& w, const std::string& name, bool by_hand,
                                        const std::string& result) {
  if (w.summary.stuck == 0) return false;
  const WorkflowId id = w.record.id;
  bool found = false;
  for (const auto& [number, nothing] :
       rows_.rows(id, WorkflowRow::stuck, WorkflowRows::Order::up, INT32_MAX)) {
    const int step = static_cast<int>(number);
    MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
    MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
    if (!name.empty() && name != definition->spec.name) continue;
    found = true;
    rows_.remove(id, WorkflowRow::stuck, step);
    rows_.remove(id, WorkflowRow::undo, status->seq);  // written again when the step ends
    --w.summary.stuck;
    --w.summary.failed;
    status->reason.clear();
    status->ended_at = 0;
    if (!by_hand) {
      status->state = StepState::waiting;
      w.ready.push_back(step);
      continue;
    }
    status->state = StepState::running;
    ++w.summary.running;
    MS_TRY(complete(w, step, result));
  }
  if (!found) return false;
  w.changed = true;
  if (w.summary.stuck > 0) {
    MS_TRY(begin_ready(w));  // they are held
    return true;
  }
  w.record.state = WorkflowState::running;
  w.summary.reason.clear();
  if (w.summary.parent.workflow != 0) tell(Tell::goes_on, id);
  MS_TRY(release_held(w));
  MS_TRY(go_on_undoing(w));
  return true;
}

Result<bool> WorkflowRules::retry_undos(Open& w, const std::string& name, bool by_hand) {
  const WorkflowId id = w.record.id;
  auto undos = rows_.rows(id, WorkflowRow::undo, WorkflowRows::Order::down, INT32_MAX);
  for (const auto& [step, child] :
       rows_.rows(id, WorkflowRow::live_child, WorkflowRows::Order::up, INT32_MAX))
    undos.emplace_back(0, std::to_string(step));
  bool found = false;
  for (const auto& [seq, number] : undos) {
    const int step = std::stoi(number);
    MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
    MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
    if (status->state != StepState::undo_failed) continue;
    if (!name.empty() && name != definition->spec.name) continue;
    found = true;
    if (status->workflow != 0) {
      tell(by_hand ? Tell::by_hand : Tell::retry, status->workflow);
      continue;
    }
    --w.summary.undo_failed;
    status->reason.clear();
    if (!by_hand) {
      status->state = StepState::completed;  // to be undone, as before
      continue;
    }
    status->state = StepState::undone;
    ++w.summary.undone;
    rows_.remove(id, WorkflowRow::undo, seq);
  }
  w.changed = w.changed || found;
  MS_TRY(leave_park(w));
  return found;
}

// Called when no failed undo is left.
Result<void> WorkflowRules::leave_park(Open& w) {
  if (w.record.state != WorkflowState::parked || w.summary.undo_failed > 0) return {};
  if (w.summary.stuck > 0) return {};  // steps wait for an operator
  w.record.state = WorkflowState::undoing;
  w.changed = true;
  if (w.summary.parent.workflow != 0) tell(Tell::goes_on, w.record.id);
  return go_on_undoing(w);
}

}  // namespace mainspring
