// Workflows: calls that the broker and the client of a server implement.
//
// All calls block and are thread-safe.
#pragma once

#include <stop_token>

#include "store/store.h"

namespace mainspring {

class Workflows {
 public:
  virtual ~Workflows() = default;

  // Durable when it returns. Errors: invalid_argument, too_large (the definition), overloaded,
  // storage_full, unavailable.
  virtual Result<WorkflowStarted> start_workflow(WorkflowSpec spec) = 0;
  // Errors of these: not_found, conflict, invalid_argument, unavailable; of a signal overloaded.
  virtual Result<void> signal_workflow(SignalWorkflow request) = 0;
  virtual Result<WorkflowInfo> cancel_workflow(CancelWorkflow request) = 0;
  virtual Result<WorkflowInfo> pause_workflow(PauseWorkflow request) = 0;
  virtual Result<WorkflowInfo> retry_workflow(RetryWorkflow request) = 0;
  // Errors: those, and forbidden, overloaded, too_large.
  virtual Result<WorkflowStarted> fork_workflow(ForkWorkflow request) = 0;

  // Errors: not_found, also if its retention has ended.
  virtual Result<WorkflowInfo> get_workflow(WorkflowId id) = 0;
  // Waits until it is terminal or parked. Returns it then, or after `wait`, or when `stop` is
  // requested.
  virtual Result<WorkflowInfo> wait_workflow(WorkflowId id, Duration wait,
                                             std::stop_token stop) = 0;
  virtual Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                         WorkflowId before) = 0;
  virtual Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) = 0;
};

// True if the state does not change without a request.
inline bool is_at_rest(WorkflowState state) {
  return is_terminal(state) || state == WorkflowState::parked;
}

}  // namespace mainspring
