// Operations on workflows: steps whose jobs are begun, awaited and undone by the store itself.
//
// Rules, kept in the transaction of whatever changes them (src/workflow has them, for every store;
// a store keeps the rows and makes the jobs):
//   - A step begins when every step before it is completed or skipped. The last of them to end
//     begins it, in the transaction of that end: a join fires exactly once.
//   - A step whose condition does not hold, or before which every step was skipped, is skipped.
//   - A job that ends completed completes its step; its result is kept with the step. One that ends
//     dead or cancelled fails it: by `on_failure` the workflow is undone, goes on, or is parked.
//   - Parked by a step that failed: no step begins, those that run go on and end, and those that
//     would begin are held. Tried again the step has the idempotency key that it had.
//   - Undoing: no step begins any more, jobs of steps that live are cancelled, and when none is
//     left the steps that completed, or whose effect nobody knows, are undone by their undo jobs:
//     one after the other, the last to end first, or all at once. An undo job that dies parks the
//     workflow.
//   - A step may be a workflow: its child, made and begun when the step begins. Its end is that of
//     the step, in its own transaction: completed, or else failed when it has undone itself. Of an
//     undone parent a child that lives is cancelled, and one that completed is undone as steps with
//     undo jobs are, at its place. A parked child parks its parent when nothing else of it lives.
//   - A fork is a new workflow of the same definition. The step that it is forked from begins anew,
//     with all that is behind it; so does what did not end well, and what is behind that. All else
//     is taken over as it ended, and never undone by the new one: it is the old one's.
//   - The jobs of steps are jobs like others, but that RetryJob and Redrive leave them alone: the
//     workflow decides what is tried again.
//   - A terminal workflow stays readable for the store's retention (completed: of completed jobs;
//     else: of dead ones), then PruneJobs removes it, and its children with it.
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
  // Its steps as they will be kept, made by whoever validated it, so that the store's only writer
  // need not; nullptr = it makes them.
  std::shared_ptr<const workflow::Prepared> prepared{};
};
struct WorkflowStarted {
  WorkflowId id = 0;
  bool duplicate = false;  // its key was there
};

// For `within`: a workflow is there for whoever may touch the queues of all its jobs.

// The step that waits for it, now or later, takes it; several of one name are taken in the order in
// which they came. The same `signal_id` again changes nothing. Answers Done. Errors: not_found,
// conflict (terminal or undoing, parked or not), overloaded (kMaxWorkflowSignals).
struct SignalWorkflow {
  WorkflowId id = 0;
  std::string name;
  std::string signal_id;  // "" = none
  std::string payload;    // JSON, "" = null; up to kMaxSignalBytes
  Within within{};
};
// Answers WorkflowInfo. It is undone, with the children that live; one that is undoing or parked
// already is as it is. Errors: not_found, conflict (terminal and not cancelled).
struct CancelWorkflow {
  WorkflowId id = 0;
  std::string reason;
  Within within{};
};
// While paused no step begins and nothing is undone; what runs goes on. So with its children, also
// when it is resumed. Answers WorkflowInfo. Errors: not_found, conflict (terminal).
struct PauseWorkflow {
  WorkflowId id = 0;
  bool paused = true;
  Within within{};
};
// Of a parked workflow, or one with a parked child: the steps that parked it, or `step`, are tried
// again, their job or undo job made anew, or `by_hand`, taken as done by the operator; those of
// parked children too. When none is left that failed, it goes on where it was parked. Answers
// WorkflowInfo. Errors: not_found (also: `step` is none that parked it), conflict (not parked; a
// result of a step that is undone), invalid_argument (`result`).
struct RetryWorkflow {
  WorkflowId id = 0;
  std::string step;  // "" = of a parked one, every one
  bool by_hand = false;
  Within within{};
  // What the step is taken to have answered: JSON, "" = nothing. Only `by_hand`, and of one step.
  std::string result{};
};
// Of a terminal workflow: what may still be undone is no ground for another. What `step` waits for
// has to be taken over. Answers WorkflowStarted. Errors: not_found, expired (it is being removed),
// forbidden (no `enqueue` for its queues), invalid_argument (`step`: there is none of this name),
// conflict (not terminal; a child of one that is not; a step before `step` did not end well),
// too_large (kMaxForkedBytes).
struct ForkWorkflow {
  WorkflowId id = 0;
  std::string step;
  std::optional<std::string> input;  // JSON; nullopt = that of the old one
  std::string key;                   // as of WorkflowSpec
  Within within{};
};
// What the scheduler does: timers and deadlines that are due.
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
