// Workflow rules: steps are undone.
#include <fmt/format.h>

#include "api/json.h"
#include "api/step_key.h"
#include "base/mutant.h"
#include "workflow/references.h"
#include "workflow/rules.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;

// Stops the workflow: no step starts, and live jobs are cancelled. Undoing continues after they
// have ended.
Result<void> WorkflowRules::undo(Open& w, std::string reason, bool cancelled) {
  if (!forward(w)) return {};
  forget_stuck(w);
  w.record.state = WorkflowState::undoing;
  w.summary.reason = std::move(reason);
  w.summary.cancelled = cancelled;
  w.changed = true;
  for (const JobId job : live_jobs(w))
    rows_.cancel_job(job, "its workflow is undone: " + w.summary.reason);
  for (const auto& [step, child] :
       rows_.rows(w.record.id, WorkflowRow::live_child, WorkflowRows::Order::up, INT32_MAX)) {
    if (!MS_MUTANT(child_runs_on)) tell(Tell::cancel, std::stoll(child), "its parent is undone");
  }
  // Timers and signals no longer matter.
  w.record.wake_at = WallTime::never();
  for (const auto& [step, name] :
       rows_.rows(w.record.id, WorkflowRow::listen, WorkflowRows::Order::up, INT32_MAX))
    rows_.remove(w.record.id, WorkflowRow::listen, step);
  return {};
}

// The steps that ended last come first; in reverse order one at a time.
Result<void> WorkflowRules::go_on_undoing(Open& w) {
  if (w.record.state != WorkflowState::undoing || w.summary.paused) return {};
  if (w.summary.live > w.summary.parked && !MS_MUTANT(undo_while_steps_run)) return {};
  const bool one = w.summary.undo_order == UndoOrder::reverse && !MS_MUTANT(undo_all_at_once);
  if (w.summary.undoing > 0) return {};
  if (w.summary.undo_failed > 0) {
    park(w);
    return {};
  }
  const auto left =
      rows_.rows(w.record.id, WorkflowRow::undo,
                 MS_MUTANT(undo_in_order) ? WorkflowRows::Order::up : WorkflowRows::Order::down,
                 one ? 1 : INT32_MAX);
  for (const auto& [seq, step] : left) MS_TRY(undo_step(w, std::stoi(step)));
  if (w.summary.undo_failed > 0 && w.summary.undoing == 0) return go_on_undoing(w);
  if (!left.empty()) return {};
  finish(w, w.summary.cancelled     ? WorkflowState::cancelled
            : w.summary.undone != 0 ? WorkflowState::undone
                                    : WorkflowState::failed);
  return {};
}

Result<std::string> WorkflowRules::undo_args(Open& w, int step, const StepDefinition& definition) {
  MS_TRY_ASSIGN(const StepStatus* status, this->status(w, step));
  const workflow::Names names = [&](std::string_view name) {
    // The step's own name refers to its own result, also in a job of `each`.
    if (name == definition.spec.name) return rows_.row(w.record.id, WorkflowRow::result, step);
    return value(w, definition.plan.refs, status, name);
  };
  constexpr auto kNull = workflow::Missing::null;  // the result of a lost job is unknown
  if (definition.spec.undo->args != "{}")
    return workflow::resolve(definition.spec.undo->args, names, kNull, kMaxArgsBytes);
  MS_TRY_ASSIGN(const std::string args,
                workflow::resolve(definition.spec.job->args, names, kNull, kMaxArgsBytes));
  const auto result = rows_.row(w.record.id, WorkflowRow::result, step);
  std::string out;
  JsonWriter(out)
      .begin_object()
      .key("step")
      .string(definition.spec.name)
      .key("args")
      .raw(args)
      .key("result")
      .raw(result ? *result : "null")
      .end_object();
  if (out.size() <= kMaxArgsBytes) return out;
  return Error{ErrorCode::too_large,
               fmt::format("args and result are over {} bytes together", kMaxArgsBytes)};
}

Result<void> WorkflowRules::undo_step(Open& w, int step) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  status->state = StepState::undoing;
  w.changed = true;
  if (status->workflow != 0) {
    ++w.summary.undoing;
    tell(Tell::undo, status->workflow, "its parent is undone");
    return {};
  }
  NewJob job = *definition->spec.undo;
  auto args = undo_args(w, step, *definition);
  if (!args) {
    status->state = StepState::undo_failed;
    status->reason = "its undo: " + args.error().message;
    ++w.summary.undo_failed;
    alarms_.push_back(fmt::format("workflow {}, step {}: {}", w.record.id, definition->spec.name,
                                  status->reason));
    return {};
  }
  job.args = std::move(*args);
  if (job.correlation_id.empty()) job.correlation_id = fmt::format("workflow-{}", w.record.id);
  // The same key for each undo job of the step: see RetryWorkflow.
  std::string key = workflow::key_of(w.record, w.summary, step);
  if (!MS_MUTANT(undo_has_key_of_step)) key += "-undo";
  if (MS_MUTANT(undo_key_made_again)) key += std::to_string(status->undo_job);
  job.headers = with_step_key(std::move(job.headers), key);
  ++w.summary.undoing;
  status->undo_job = rows_.make_job(job, {.workflow = w.record.id, .step = step, .undo = true});
  return {};
}

Result<void> WorkflowRules::undo_ended(Open& w, int step, const StepEnd& end) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  --w.summary.undoing;
  if (end.state == JobState::completed || MS_MUTANT(failed_undo_is_done)) {
    status->state = StepState::undone;
    ++w.summary.undone;
    rows_.remove(w.record.id, WorkflowRow::undo, status->seq);
    return go_on_undoing(w);
  }
  status->state = StepState::undo_failed;
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  status->reason = "its undo: " + reason_of(end);
  ++w.summary.undo_failed;
  alarms_.push_back(
      fmt::format("workflow {}, step {}: {}", w.record.id, definition->spec.name, status->reason));
  return go_on_undoing(w);
}

void WorkflowRules::finish(Open& w, WorkflowState state) {
  w.record.state = state;
  w.record.wake_at = WallTime::never();
  w.changed = true;
  if (!w.record.key.empty()) w.summary.key_until = now_ + w.summary.key_for;
  if (w.summary.parent.workflow == 0 || MS_MUTANT(child_goes_before_its_parent))
    w.record.finished_at = now_;
  if (w.summary.parent.workflow == 0) return;
  w.summary.ended_at = now_;
  if (!MS_MUTANT(child_end_not_joined)) tell(Tell::ended, w.record.id);
}

// -- operator actions -----------------------------------------------------------------------------

Result<WorkflowInfo> WorkflowRules::cancel(const CancelWorkflow& op) {
  MS_TRY_ASSIGN(Open * w, open_within(op.id, op.within));
  if (w->record.state == WorkflowState::cancelled) return info(*w);
  if (is_terminal(w->record.state)) {
    return Error{ErrorCode::conflict,
                 fmt::format("workflow {} is already {}", op.id, to_string(w->record.state))};
  }
  if (forward(*w)) {
    MS_TRY(undo(*w, op.reason.empty() ? "cancelled" : op.reason, true));
    MS_TRY(go_on_undoing(*w));
    MS_TRY(settle());
  }
  return info(*w);
}

Result<WorkflowInfo> WorkflowRules::pause(const PauseWorkflow& op) {
  MS_TRY_ASSIGN(Open * w, open_within(op.id, op.within));
  if (is_terminal(w->record.state)) {
    return Error{ErrorCode::conflict,
                 fmt::format("workflow {} is already {}", op.id, to_string(w->record.state))};
  }
  MS_TRY(set_paused(*w, op.paused));
  MS_TRY(settle());
  return info(*w);
}

Result<void> WorkflowRules::set_paused(Open& w, bool paused) {
  if (w.summary.paused == paused) return {};
  w.summary.paused = paused;
  w.changed = true;
  tell_children(w, paused ? Tell::pause : Tell::resume);
  if (paused) return {};
  MS_TRY(release_held(w));
  return go_on_undoing(w);
}

Result<void> WorkflowRules::signal(const SignalWorkflow& op) {
  MS_TRY_ASSIGN(Open * w, open_within(op.id, op.within));
  if (!forward(*w)) {
    return Error{ErrorCode::conflict, fmt::format("workflow {} is {}: no step waits for a signal",
                                                  op.id, to_string(w->record.state))};
  }
  if (!op.signal_id.empty()) {
    for (const auto& [seq, id] : rows_.rows(op.id, WorkflowRow::heard, WorkflowRows::Order::down,
                                            static_cast<int>(kMaxWorkflowSignals))) {
      if (id == op.signal_id && !MS_MUTANT(signal_taken_twice)) return {};
    }
  }
  const std::string payload = op.payload.empty() ? "null" : op.payload;
  int taker = 0;
  for (const auto& [step, name] :
       rows_.rows(op.id, WorkflowRow::listen, WorkflowRows::Order::up, INT32_MAX)) {
    if (name != op.name && !MS_MUTANT(any_signal_will_do)) continue;
    taker = static_cast<int>(step);
    break;
  }
  if (taker == 0 && w->summary.waiting_signals >= static_cast<std::int64_t>(kMaxWorkflowSignals)) {
    return Error{ErrorCode::overloaded,
                 fmt::format("workflow {} has {} signals that no step has taken", op.id,
                             kMaxWorkflowSignals)};
  }
  w->changed = true;
  if (!op.signal_id.empty()) rows_.put(op.id, WorkflowRow::heard, ++w->summary.heard, op.signal_id);
  if (taker == 0) {
    ++w->summary.waiting_signals;
    rows_.put(op.id, WorkflowRow::signal, ++w->summary.signals, op.name + "\n" + payload);
    return {};
  }
  rows_.remove(op.id, WorkflowRow::listen, taker);
  MS_TRY(complete(*w, taker, payload));
  MS_TRY(begin_ready(*w));
  return settle();
}

}  // namespace mainspring
