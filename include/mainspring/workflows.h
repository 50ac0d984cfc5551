// Workflows of an engine: start, signal, read, pause, and retry parked ones.
//
// What a workflow is: workflow.h. Guide: docs/guides/workflows.md.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "mainspring/workflow.h"

namespace mainspring {

class Workflows;

struct StartedWorkflow {
  WorkflowId id = 0;
  bool duplicate = false;  // a workflow with its name and key already existed
};
// Which workflows are listed. Empty fields do not restrict.
struct WorkflowList {
  std::string name{};
  std::optional<WorkflowState> state{};
  int limit = 100;        // 1 to 1000
  WorkflowId before = 0;  // smaller ids only; 0 = from the newest
};
enum class RetryMode : std::uint8_t {
  again,    // create the failed jobs, or undo jobs, again
  by_hand,  // mark it as done or undone: an operator has done it
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable; with an id also not_found.
class EngineWorkflows {
 public:
  explicit EngineWorkflows(Workflows& workflows) : workflows_(&workflows) {}

  // Starts a workflow. Durable when it returns. Errors: those of validate(spec), overloaded,
  // storage_full. With a server, a workflow without a key gets a random one, so that a retry after
  // a broken connection cannot start it twice.
  Result<StartedWorkflow> start(WorkflowSpec spec);
  // Sends a signal. `payload`: JSON, "" = null. Repeating a `signal_id` has no effect; "" = a
  // random id with a server, none in this process. Errors: conflict (it is being undone or has
  // ended), overloaded (kMaxWorkflowSignals).
  Result<void> signal(WorkflowId id, std::string name, std::string payload = "",
                      std::string signal_id = "");
  // Undoes completed steps, then ends. Errors: conflict (it has ended).
  Result<WorkflowInfo> cancel(WorkflowId id, std::string reason = "");
  // While paused, no step starts and nothing is undone; running jobs continue. Errors of both:
  // conflict (it has ended).
  Result<WorkflowInfo> pause(WorkflowId id);
  Result<WorkflowInfo> resume(WorkflowId id);
  // Continues a parked workflow, or one with a parked child, at `step`; "" = at every step that
  // parked it. `result` (JSON, "" = nothing) is the result of a step that was done by hand. Errors:
  // conflict (it is not parked; a result for an undone step); not_found also if `step` did not park
  // it.
  Result<WorkflowInfo> retry(WorkflowId id, std::string step = "",
                             RetryMode mode = RetryMode::again, std::string result = "");
  // Starts a new workflow from `step` of an ended one. `input` (JSON; nullopt = the original's) and
  // `key` are those of the new one. Errors: conflict, too_large, overloaded, storage_full.
  Result<StartedWorkflow> fork(WorkflowId id, std::string step,
                               std::optional<std::string> input = {}, std::string key = "");

  Result<WorkflowInfo> get(WorkflowId id);
  // Waits for the workflow to end or park. Returns it then, or as it is after `limit`.
  Result<WorkflowInfo> wait(WorkflowId id, Duration limit = kForever, std::stop_token stop = {});
  // Newest first. A page may be short, even empty, with `next` set.
  Result<WorkflowPage> list(const WorkflowList& list = {});
  // By number, after `after`; up to `limit`, 1 to 1000.
  Result<WorkflowStepPage> steps(WorkflowId id, int limit = 1000, int after = 0);

 private:
  Workflows* workflows_;
};

}  // namespace mainspring
