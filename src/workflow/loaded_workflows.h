// Workflows in memory: loaded during a transaction, and kept between transactions.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "workflow/step_rows.h"

namespace mainspring::workflow {

// The start data of a packed workflow. Immutable.
struct Start {
  StartText text{};  // without specs for a new workflow: all are in the definitions
  std::map<int, std::shared_ptr<const StepDefinition>> definitions{};  // loaded on demand
  int steps = 0;
  std::size_t bytes = 0;  // estimated memory
};
std::shared_ptr<Start> make_start(StartText text);
// The definition of step `number`, from 1. The error describes what is wrong with the text.
Result<std::shared_ptr<const StepDefinition>> definition_of(Start& start, int number);

// A workflow, as far as its rows have been read.
struct OpenWorkflow {
  struct Step {
    StepStatus status{};
    bool known = false, touched = false;
    std::string was{};  // the stored row; "" = none
  };
  WorkflowRecord record;
  Summary summary;
  WorkflowState before = WorkflowState::running;
  bool changed = false, fresh = false;
  bool states_touched = false;   // summary.states may have changed
  std::shared_ptr<Start> start;  // packed: once it is known
  std::map<int, Step> steps;     // steps that are not packed
  std::map<int, std::shared_ptr<const StepDefinition>> definitions;  // of these steps
  std::vector<int> touched;                                          // steps that may have changed
  std::deque<int> ready;                      // steps that wait for nothing
  std::map<std::int64_t, std::string> wakes;  // to be added to the rows
  std::size_t bytes = 0;                      // estimated memory

  // The step, marked as possibly changed.
  Step& touch(int number) {
    Step& step = steps[number];
    if (!step.touched) touched.push_back(number);
    step.touched = true;
    return step;
  }
  bool is_packed(int step) const { return step <= std::ssize(summary.states); }
  // The step's definition; nullptr = not loaded. For a packed workflow `start` is known.
  std::shared_ptr<const StepDefinition>& known_definition(int number) {
    return (is_packed(number) ? start->definitions : definitions)[number];
  }
  // For a step on which WorkflowRules::status() was called.
  StepStatus& known_status(int step) {
    return is_packed(step) ? summary.states[static_cast<std::size_t>(step) - 1]
                           : steps.at(step).status;
  }
};

// The workflows that a store used last, kept in memory so that the end of a step need not read them
// again. Only for a store that is the only writer. Contains committed data: call forget() after a
// rollback or another change of the rows.
//
// Threads: those of Store::apply().
class KeptWorkflows {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;        // of all workflows
  static constexpr std::size_t kMaxBytesOfOne = 512 << 10;  // larger workflows are read each time

  std::unique_ptr<OpenWorkflow> take(WorkflowId id);  // nullptr = not cached
  void keep(std::unique_ptr<OpenWorkflow> workflow);
  void forget();

 private:
  using Order = std::list<std::unique_ptr<OpenWorkflow>>;  // most recently used first
  Order order_;
  std::unordered_map<WorkflowId, Order::iterator> by_id_;
  std::size_t bytes_ = 0;
};

// The start data of the packed workflows that a store used last. The data never changes, so other
// writers are allowed. Call forget() after the connection to the database was lost.
//
// Threads: those of Store::apply().
class KeptStarts {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;

  // May belong to an earlier workflow with the same number. nullptr = not cached.
  Start* peek(WorkflowId id) const;
  // Also compares the start time: after a crash a database may give a number again. nullptr = not
  // cached.
  std::shared_ptr<Start> find(WorkflowId id, WallTime started_at);
  void keep(WorkflowId id, WallTime started_at, std::shared_ptr<Start> start);
  void drop(WorkflowId id);
  void forget();

 private:
  struct Kept {
    WorkflowId id = 0;
    WallTime started_at;
    std::shared_ptr<Start> start;
    std::size_t bytes = 0;
  };
  std::list<Kept> order_;  // most recently used first
  std::unordered_map<WorkflowId, std::list<Kept>::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace mainspring::workflow
