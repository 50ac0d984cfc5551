// Workflow rules: steps that are workflows, and the messages between a child and its parent.
//
//   parent ── begin · cancel · undo · retry · pause ──▶ child
//          ◀────────── parked · goes_on · ended ──────
#include <fmt/format.h>

#include "api/json.h"
#include "base/mutant.h"
#include "workflow/references.h"
#include "workflow/rules.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;

namespace {

constexpr std::size_t kMaxChildReasonBytes = 1 << 10;

// "workflow 12 is undone: step b: dead"
std::string state_of(const WorkflowRecord& child, const workflow::Summary& summary) {
  std::string out = fmt::format("workflow {} is {}", child.id, to_string(child.state));
  if (!summary.reason.empty()) out += ": " + summary.reason;
  return std::string(cut_text(out, kMaxChildReasonBytes));
}

}  // namespace

Result<void> WorkflowRules::begin_child(Open& w, int step, const StepDefinition& definition) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  WorkflowSpec spec = *definition.spec.workflow;
  auto input = workflow::resolve(
      spec.input,
      [&](std::string_view name) { return value(w, definition.plan.refs, status, name); },
      workflow::Missing::refuse, kMaxArgsBytes);
  const Result<void> checked = input ? check_json("input", *input) : input.error();
  if (!checked) return fail_to_resolve(w, step, "input", checked.error());  // or too deep
  spec.input = std::move(*input);
  for (int i = MS_MUTANT(child_started_twice) ? 0 : 1; i < 2; ++i) {
    MS_TRY_ASSIGN(auto plan, workflow::plan(spec));
    Open& child = make(spec, workflow::prepare(spec, std::move(plan)), &w, step);
    child.summary.parent.step = definition.spec.name;
    status->workflow = child.record.id;
    rows_.put(w.record.id, WorkflowRow::child, status->workflow, std::to_string(step));
    tell(Tell::begin, status->workflow);
  }
  ++w.summary.live;
  rows_.put(w.record.id, WorkflowRow::live_child, step, std::to_string(status->workflow));
  return {};
}

// -- messages -----------------------------------------------------------------------------------

void WorkflowRules::tell_children(Open& w, Tell what) {
  for (const auto& [child, step] :
       rows_.rows(w.record.id, WorkflowRow::child, WorkflowRows::Order::up, INT32_MAX))
    tell(what, child);
}

Result<void> WorkflowRules::settle() {
  while (!notices_.empty()) {
    const Notice notice = std::move(notices_.front());
    notices_.pop_front();
    MS_TRY(hear(notice));
  }
  return {};
}

Result<void> WorkflowRules::hear(const Notice& notice) {
  MS_TRY_ASSIGN(Open * child, open(notice.child));
  if (child == nullptr) return {};
  const bool to_parent =
      notice.what == Tell::parked || notice.what == Tell::goes_on || notice.what == Tell::ended;
  if (!to_parent) return child_does(*child, notice);
  MS_TRY_ASSIGN(Open * parent, open(child->summary.parent.workflow));
  if (parent == nullptr) return {};
  return child_is(*parent, child->summary.parent_step, *child, notice.what);
}

Result<void> WorkflowRules::child_does(Open& child, const Notice& notice) {
  const WorkflowState state = child.record.state;
  switch (notice.what) {
    case Tell::begin: {
      MS_TRY_ASSIGN(const Open* parent, open(child.summary.parent.workflow));
      // If the parent is being undone, the child is cancelled before it starts.
      if (parent == nullptr || !forward(*parent)) return {};
      MS_TRY(begin_ready(child));
      return go_on_undoing(child);
    }
    case Tell::cancel:
      if (!forward(child) || (state == WorkflowState::parked && MS_MUTANT(parked_child_lives_on)))
        return {};
      MS_TRY(undo(child, notice.reason, true));
      return go_on_undoing(child);
    case Tell::undo:
      if (state != WorkflowState::completed) return {};
      child.record.state = WorkflowState::undoing;
      child.summary.reason = notice.reason;
      child.summary.ended_at = WallTime();
      child.summary.paused = false;
      child.changed = true;
      return go_on_undoing(child);
    case Tell::pause:
    case Tell::resume:
      return is_terminal(state) ? Result<void>() : set_paused(child, notice.what == Tell::pause);
    default:
      if (state != WorkflowState::parked && child.summary.parked == 0) return {};
      MS_TRY(retry_steps(child, "", notice.what == Tell::by_hand));
      return {};
  }
}

// A step with a live child counts as `running`, or as `undo_failed` if the child is parked.
Result<void> WorkflowRules::child_is(Open& w, int step, Open& child, Tell what) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  if (status->workflow != child.record.id) return {};
  const bool lives = status->ended_at == 0;  // else it is one that had completed
  w.changed = true;
  if (what == Tell::ended) {
    if (lives) return child_ended(w, step, child);
    return status->state == StepState::undoing ? child_undone(w, step) : Result<void>();
  }
  if (what == Tell::parked) {
    if (MS_MUTANT(parked_child_not_reported)) return {};
    --(lives ? w.summary.running : w.summary.undoing);
    if (lives) ++w.summary.parked;
    ++w.summary.undo_failed;
    status->state = StepState::undo_failed;
    status->reason = state_of(child.record, child.summary);
    return go_on_undoing(w);
  }
  if (status->state != StepState::undo_failed) return {};
  ++(lives ? w.summary.running : w.summary.undoing);
  if (lives) --w.summary.parked;
  --w.summary.undo_failed;
  status->state = lives ? StepState::running : StepState::undoing;
  status->reason.clear();
  return leave_park(w);
}

Result<void> WorkflowRules::child_ended(Open& w, int step, Open& child) {
  rows_.remove(w.record.id, WorkflowRow::live_child, step);
  --w.summary.live;
  if (child.record.state == WorkflowState::completed) {
    const auto result = rows_.row(child.record.id, WorkflowRow::text, workflow::kTextResult);
    MS_TRY(complete(w, step, result.value_or("")));
  } else {
    MS_TRY(fail(w, step, state_of(child.record, child.summary), false));
  }
  MS_TRY(begin_ready(w));
  return go_on_undoing(w);
}

Result<void> WorkflowRules::child_undone(Open& w, int step) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  --w.summary.undoing;
  ++w.summary.undone;
  status->state = StepState::undone;
  rows_.remove(w.record.id, WorkflowRow::undo, status->seq);
  return go_on_undoing(w);
}

Result<void> WorkflowRules::check_parents_ended(Open& w) {
  Open* child = &w;
  while (child->summary.parent.workflow != 0) {
    const WorkflowId id = child->summary.parent.workflow;
    MS_TRY_ASSIGN(Open * parent, open(id));
    if (parent == nullptr) return {};
    if (!is_terminal(parent->record.state) && !MS_MUTANT(fork_of_child_in_use)) {
      return Error{ErrorCode::conflict,
                   fmt::format("workflow {} is a step of workflow {}, which is {}: it can be "
                               "forked after that workflow has ended",
                               w.record.id, id, to_string(parent->record.state))};
    }
    child = parent;
  }
  return {};
}

}  // namespace mainspring
