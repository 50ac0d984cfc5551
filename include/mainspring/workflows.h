// Workflows of an engine: started, signalled, looked at, paused, and helped on when one is parked.
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
  bool duplicate = false;  // one of its name and key had been started
};
// Which workflows are listed. What is left out does not restrict.
struct WorkflowList {
  std::string name{};
  std::optional<WorkflowState> state{};
  int limit = 100;        // 1 to 1000
  WorkflowId before = 0;  // those with a smaller id; 0 = from the newest
};
enum class RetryMode : std::uint8_t {
  again,    // the jobs, or undo jobs, that failed are made anew
  by_hand,  // somebody has done it, or undone it: it is taken as done
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (with the field), unavailable; of all with an id not_found.
class EngineWorkflows {
 public:
  explicit EngineWorkflows(Workflows& workflows) : workflows_(&workflows) {}

  // Steps that are finished or undone as a whole. On disk when it returns. Errors: those of
  // validate(spec), overloaded, storage_full. At a server, one without a key gets a random one, so
  // that a broken connection cannot start it twice.
  Result<StartedWorkflow> start(WorkflowSpec spec);
  // `payload`: JSON, "" = null. The same `signal_id` again changes nothing; "" = a random one at a
  // server, none in this process.
  // Errors: conflict (it is being undone or has ended), overloaded (kMaxWorkflowSignals).
  Result<void> signal(WorkflowId id, std::string name, std::string payload = "",
                      std::string signal_id = "");
  // What was done is undone; it has ended when that is. Errors: conflict (it has ended).
  Result<WorkflowInfo> cancel(WorkflowId id, std::string reason = "");
  // While paused no step begins and nothing is undone; what runs goes on. Errors of both: conflict
  // (it has ended).
  Result<WorkflowInfo> pause(WorkflowId id);
  Result<WorkflowInfo> resume(WorkflowId id);
  // Of a parked one, or one with a parked child: lets it go on, with `step` or, "", with every step
  // that parked it. `result` (JSON, "" = nothing) is what a step is taken to have answered that
  // somebody has done by hand. Errors: conflict (it is not parked; a result of a step that is
  // undone); not_found also where `step` is none that parked it.
  Result<WorkflowInfo> retry(WorkflowId id, std::string step = "",
                             RetryMode mode = RetryMode::again, std::string result = "");
  // Begins one that has ended anew from `step`, as a new one; `input` (JSON; nullopt = as it was)
  // and `key` are of the new one. Errors: conflict, too_large, overloaded, storage_full.
  Result<StartedWorkflow> fork(WorkflowId id, std::string step,
                               std::optional<std::string> input = {}, std::string key = "");

  Result<WorkflowInfo> get(WorkflowId id);
  // The workflow when it has ended or is parked, or as it is after `limit`.
  Result<WorkflowInfo> wait(WorkflowId id, Duration limit = kForever, std::stop_token stop = {});
  // Newest first. A page may be short, even empty, with `next` set.
  Result<WorkflowPage> list(const WorkflowList& list = {});
  // By number, behind `after`; up to `limit`, 1 to 1000.
  Result<WorkflowStepPage> steps(WorkflowId id, int limit = 1000, int after = 0);

 private:
  Workflows* workflows_;
};

}  // namespace mainspring
