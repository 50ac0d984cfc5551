// Workflows of the nodes: each node starts some, runs their steps and undos, signals, pauses and
// cancels them. The invariant of workflows judges the final state.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "blackbox/random.h"
#include "simulation/flow_invariant.h"
#include "store/store.h"

namespace mainspring::pg_testing {

// The shared knowledge of the nodes about the workflows that they started.
class Flows {
 public:
  std::int64_t next(std::set<int> jobs) MS_EXCLUDES(mutex_);
  void started(WorkflowId id) MS_EXCLUDES(mutex_);
  WorkflowId some(std::uint64_t dice) const MS_EXCLUDES(mutex_);  // 0 = none yet
  void accepted(JobId id) MS_EXCLUDES(mutex_);
  void claimed(JobId id) MS_EXCLUDES(mutex_);
  bool has_claimed(JobId id) const MS_EXCLUDES(mutex_);
  // Reads and judges the final state.
  simulation::FlowInvariant::Verdict judge(const Store& store) MS_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  simulation::FlowInvariant invariant_ MS_GUARDED_BY(mutex_);
  std::vector<WorkflowId> started_ MS_GUARDED_BY(mutex_);
  std::set<JobId> claimed_ MS_GUARDED_BY(mutex_);
};

// One node's part.
class FlowSide {
 public:
  // Adds an operation to the node's batch. Gets the answer; nullptr = it failed, and `sure` = it
  // certainly had no effect.
  using Handler = std::function<void(const OperationResult*, bool sure)>;
  using Add = std::function<void(Operation, Handler)>;
  FlowSide(Flows& flows, blackbox::Chance& chance, Add add)
      : flows_(flows), chance_(chance), add_(std::move(add)) {}

  // One round: `storm` = it makes mistakes and starts new workflows.
  void turn(const Store& store, const std::string& worker, bool storm, Now now);
  // The node restarted as a new process.
  void forget() { held_.clear(); }
  std::size_t unsent() const { return again_.size(); }

 private:
  struct Held {
    Token token = 0;
    Instant until;
    bool undoes = false;
    std::optional<Outcome> said{};  // of a finish to be repeated unchanged
  };
  void start();
  void send(const WorkflowSpec& spec);
  WorkflowSpec draw();
  WorkflowSpec draw_child(int first, int jobs);
  void give_job(StepSpec& of, int step);
  void change();
  void tend(const Store& store);
  void claim(const std::string& worker, bool storm, Now now);
  void finish(JobId id, Held& mine, const std::string& worker, bool storm);
  Outcome draw_outcome(bool undoes, bool storm);
  void tell(Operation operation);  // ignores the answer

  Flows& flows_;
  blackbox::Chance& chance_;
  const Add add_;
  std::map<JobId, Held> held_;
  std::vector<WorkflowSpec> again_;
};

}  // namespace mainspring::pg_testing
