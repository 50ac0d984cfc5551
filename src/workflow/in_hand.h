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

// What a packed workflow was started with; none of it ever changes.
struct Start {
  StartText text{};  // of a new one without specs: all of them are among the definitions
  std::map<int, std::shared_ptr<const StepDefinition>> definitions{};  // those that were asked for
  int steps = 0;
  std::size_t bytes = 0;  // about what it takes up
};
std::shared_ptr<Start> make_start(StartText text);
// Of step `number`, from 1. The error says what is wrong with the text.
Result<std::shared_ptr<const StepDefinition>> definition_of(Start& start, int number);

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
  bool states_touched = false;   // of summary.states: they may have changed
  std::shared_ptr<Start> start;  // packed: once it is known
  std::map<int, Step> steps;     // those that are not packed
  std::map<int, std::shared_ptr<const StepDefinition>> definitions;  // of these
  std::vector<int> touched;                                          // steps that may have changed
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
  // Of that step; nullptr = it has not been asked for. Of a packed one `start` is known.
  std::shared_ptr<const StepDefinition>& known_definition(int number) {
    return (is_packed(number) ? start->definitions : definitions)[number];
  }
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

// What the packed workflows that a store saw last were started with. Others may write to the store:
// it does not change. Whoever loses sight of the database says forget().
//
// Threads: those of Store::apply().
class KeptStarts {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;

  // Perhaps that of another one, which had its number. nullptr = it is not here.
  Start* peek(WorkflowId id) const;
  // Nobody else's: a database that was not shut down in good order gives numbers again, so it is
  // told by its time too. nullptr = it is not here.
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
  std::list<Kept> order_;  // the last that was used in front
  std::unordered_map<WorkflowId, std::list<Kept>::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace mainspring::workflow
