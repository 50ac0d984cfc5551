// Operations on workflows. The store itself starts, awaits and undoes the jobs of steps.
//
// Rules, applied in the transaction of each change (src/workflow implements them for all stores; a
// store keeps the rows and makes the jobs):
//   - A step starts when every step before it is completed or skipped. The end of the last one
//     starts the step, in the same transaction: a join fires exactly once.
//   - A step whose condition is false, or whose preceding steps were all skipped, is skipped.
//   - A completed job completes its step; its result is saved with the step. A dead or cancelled
//     job fails its step. Then `on_failure` decides: the workflow is undone, continues, or is
//     parked.
//   - Parked by a failed step: no step starts, running steps continue to their end, and steps that
//     would start are held. A retried step keeps its idempotency key.
//   - Undoing: no step starts any more, and jobs of live steps are cancelled. When none is left,
//     the undo jobs run for completed steps and for steps with an unknown effect: one after
//     another, the last step to end first, or all at once. An undo job that dies parks the
//     workflow.
//   - A step can be a workflow: its child, created when the step starts. The end of the child is
//     the end of the step, in the same transaction: completed, or failed after the child has undone
//     itself. When the parent is undone, a live child is cancelled, and a completed child is undone
//     in its place, like a step with an undo job. A parked child parks its parent when nothing else
//     of the parent is live.
//   - A fork is a new workflow of the same definition. The step it is forked from starts again,
//     with all later steps. So do steps that did not end well, and their later steps. All other
//     steps are copied as they ended; the fork never undoes them, because they belong to the
//     original workflow.
//   - Jobs of steps are ordinary jobs, but RetryJob and Redrive skip them: the workflow decides
//     what is retried.
//   - A key holds until `key_for` after the end of its workflow. If the workflow is removed before,
//     a row with its key stays, which only StartWorkflow and ForkWorkflow see.
//   - A step whose args, `each` or input are over their limit with what they refer to parks its
//     workflow, unless `on_failure` is `continue`: the finished steps are not undone.
//   - A terminal workflow stays readable for the store's retention (completed: that of completed
//     jobs; else: that of dead jobs). Then PruneJobs removes it with its children.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/workflow.h"
#include "model/access.h"
#include "store/lease_operations.h"

namespace mainspring {

namespace workflow {
struct Prepared;
}

// The definition has been validated, and its queues are within. Answers WorkflowStarted.
struct StartWorkflow {
  WorkflowSpec spec;
  // The prepared steps, made by the code that validated the definition, so that the store's only
  // writer need not make them; nullptr = the writer makes them.
  std::shared_ptr<const workflow::Prepared> prepared{};
  Within within{};  // of the key: the verb `enqueue`
};
struct WorkflowStarted {
  WorkflowId id = 0;
  bool duplicate = false;  // the caller's workflow with this key; it can have been removed
};

// For `within`: a workflow is visible to callers that may use the queues of all its jobs.

// Delivered to the step that waits for this signal, now or later. Signals of one name are taken in
// the order of arrival. The same `signal_id` again changes nothing. Answers Done. Errors:
// not_found, conflict (terminal or undoing, parked or not), overloaded (kMaxWorkflowSignals).
struct SignalWorkflow {
  WorkflowId id = 0;
  std::string name;
  std::string signal_id;  // "" = none
  std::string payload;    // JSON, "" = null; up to kMaxSignalBytes
  Within within{};
};
// Answers WorkflowInfo. Undoes the workflow and its live children. No change if it is already
// undoing or parked. Errors: not_found, conflict (terminal and not cancelled).
struct CancelWorkflow {
  WorkflowId id = 0;
  std::string reason;
  Within within{};
};
// While paused, no step starts and nothing is undone; running steps continue. Pause and resume also
// apply to its children. Answers WorkflowInfo. Errors: not_found, conflict (terminal).
struct PauseWorkflow {
  WorkflowId id = 0;
  bool paused = true;
  Within within{};
};
// For a parked workflow, or one with a parked child: retries the steps that parked it, or `step`,
// with a new job or undo job. With `by_hand`, the operator marks the step as done. Includes steps
// of parked children. When no failed step is left, the workflow continues where it was parked.
// Answers WorkflowInfo. Errors: not_found (also: `step` did not park it), conflict (not parked; a
// result for a step that is undone), invalid_argument (`result`).
struct RetryWorkflow {
  WorkflowId id = 0;
  std::string step;  // "" = every step that parked it
  bool by_hand = false;
  Within within{};
  // The step's result: JSON, "" = none. Only with `by_hand`, and for one step.
  std::string result{};
};
// Forks a terminal workflow; a workflow that can still be undone is not a safe base. The steps that
// `step` waits for must have ended well. Answers WorkflowStarted. Errors: not_found, expired (it is
// being removed), forbidden (no `enqueue` for its queues), invalid_argument (`step`: no step of
// this name), conflict (not terminal; a child of a live workflow; a step before `step` did not end
// well), too_large (kMaxForkedBytes).
struct ForkWorkflow {
  WorkflowId id = 0;
  std::string step;
  std::optional<std::string> input;  // JSON; nullopt = the original's input
  std::string key;                   // as in WorkflowSpec
  Within within{};
  Duration key_for = kDefaultWorkflowKeyFor;
};
// Run by the scheduler: due timers and deadlines.
struct WakeWorkflows {
  int limit = 1000;  // workflows
  Fence fence;
};

struct WorkflowFilter {
  std::string name;  // "" = every
  std::optional<WorkflowState> state;
  Within within{};
};

}  // namespace mainspring
