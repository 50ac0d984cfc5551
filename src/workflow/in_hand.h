// What is in hand of workflows: during a transaction, and from one to the next.
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

// A workflow as far as its rows have been read.
struct OpenWorkflow {
  struct Step {
    StepStatus status{};
    bool known = false, touched = false;
    std::string was{};  // the row as it stands; "" = there is none
  };
  WorkflowRecord record;
  Summary summary;
  WorkflowState before = WorkflowState::running;
  bool changed = false, fresh = false;
  bool states_touched = false;       // of summary.states: they may have changed
  std::optional<StartText> start{};  // packed: once it has been read; of a new one without specs
  std::map<int, Step> steps;         // those that are not packed
  std::map<int, std::shared_ptr<const StepDefinition>> definitions;
  std::vector<int> touched;                   // steps that may have changed
  std::deque<int> ready;                      // steps that wait for nothing any more
  std::map<std::int64_t, std::string> wakes;  // to be added to the rows
  std::size_t bytes = 0;                      // about what it takes up

  // A step whose row may have to be written.
  Step& touch(int number) {
    Step& step = steps[number];
    if (!step.touched) touched.push_back(number);
    step.touched = true;
    return step;
  }
  bool is_packed(int step) const { return step <= std::ssize(summary.states); }
  // Of a step that WorkflowRules::status() has been asked for.
  StepStatus& known_status(int step) {
    return is_packed(step) ? summary.states[static_cast<std::size_t>(step) - 1]
                           : steps.at(step).status;
  }
};

// What a store whose only writer it is keeps in memory of the workflows that it saw last, so that
// the end of a step need not read them again. It holds what has been written; whoever rolls back,
// or writes the rows otherwise, says forget().
//
// Threads: those of Store::apply().
class KeptWorkflows {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;        // of all
  static constexpr std::size_t kMaxBytesOfOne = 512 << 10;  // larger ones are read each time

  std::unique_ptr<OpenWorkflow> take(WorkflowId id);  // nullptr = it is not here
  void keep(std::unique_ptr<OpenWorkflow> workflow);
  void forget();

 private:
  using Order = std::list<std::unique_ptr<OpenWorkflow>>;  // the last that was used in front
  Order order_;
  std::unordered_map<WorkflowId, Order::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace mainspring::workflow
