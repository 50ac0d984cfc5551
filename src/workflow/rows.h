// What the rules of workflows ask of a store, inside the transaction of the operation under way.
//
// A store keeps two tables: one row for each workflow, with what it is found by, and numbered rows
// of text below each workflow, by kind. What stands in them is the rules' matter.
//
// Threads: those of Store::apply().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/time.h"
#include "mainspring/workflow.h"

namespace mainspring {

// So long ago that no retention is longer.
inline constexpr WallTime kGoesWithParent = WallTime::from_us(-4'000'000'000'000'000'000);

// The row of a workflow.
struct WorkflowRecord {
  WorkflowId id = 0;
  std::string name, key;  // unique together, where the key is not ""
  WorkflowState state = WorkflowState::running;
  WallTime wake_at = WallTime::never();  // WakeWorkflows; part of the agenda
  // Terminal: its retention begins here. Never of a child: whoever removes its parent sets it to
  // kGoesWithParent, so that it goes too.
  WallTime finished_at = WallTime::never();
  std::string data;  // the rest: see workflow/step_rows.h
  friend bool operator==(const WorkflowRecord&, const WorkflowRecord&) = default;
};

enum class WorkflowRow : std::uint8_t {  // and what their numbers are
  text,                                  // of the whole: input, result (WorkflowText)
  spec,                                  // of steps: definition, parents, children; step
  state,                                 // of steps: what changes; step
  result,                                // of steps; step
  item,                                  // of jobs of `each`; step
  undo,        // what may have to be undone; in the order in which they ended
  live,        // steps with a job, or an undo job, that has not ended; step
  wake,        // steps to be woken; microseconds since 1970
  signal,      // that no step has taken; in the order in which they came
  listen,      // steps that wait for a signal; step
  held,        // steps that begin when the pause ends; step
  heard,       // signal ids; in the order in which they came
  child,       // workflows that are steps of it: the step; the child's id
  live_child,  // steps whose child has not ended: its id; step
  stuck,       // steps that failed and wait for somebody, by `on_failure` park; step
};
inline constexpr int kWorkflowRowKinds = 15;

// Whose job it is.
struct StepJob {
  WorkflowId workflow = 0;
  int step = 0;
  bool undo = false;
  friend bool operator==(const StepJob&, const StepJob&) = default;
};
// How it ended. `unknown`: an attempt ended without its worker's word, or it was cancelled while it
// ran.
struct StepEnd {
  StepJob of;
  JobId job = 0;
  JobState state = JobState::completed;  // terminal
  std::string result;                    // JSON, "" = none
  std::string reason, description;
  bool unknown = false;
};

class WorkflowRows {
 public:
  using Row = std::pair<std::int64_t, std::string>;
  virtual ~WorkflowRows() = default;

  virtual WorkflowId new_workflow() = 0;
  // Small new ones are packed (workflow::kMaxPackedSteps). False in tests of the other form.
  virtual bool may_pack() = 0;
  // Also locks it, against other nodes, to the end of the transaction.
  virtual std::optional<WorkflowRecord> load(WorkflowId id) = 0;
  virtual std::optional<WorkflowId> by_key(const std::string& name, const std::string& key) = 0;
  virtual void save(const WorkflowRecord& record, bool is_new) = 0;

  virtual std::optional<std::string> row(WorkflowId id, WorkflowRow kind, std::int64_t number) = 0;
  virtual void put(WorkflowId id, WorkflowRow kind, std::int64_t number, std::string_view text) = 0;
  virtual void remove(WorkflowId id, WorkflowRow kind, std::int64_t number) = 0;
  // From the lowest number (or down from the highest), at most `limit`.
  enum class Order { up, down };
  virtual std::vector<Row> rows(WorkflowId id, WorkflowRow kind, Order order, int limit) = 0;

  // A job of a step: available, or what its session lets it be. Its end comes back as a StepEnd,
  // behind the operation that ended it.
  virtual JobId make_job(const NewJob& job, const StepJob& of) = 0;
  // As Cancel; one that ended is passed over. If it does not run, its StepEnd comes behind the
  // operation.
  virtual void cancel_job(JobId job, const std::string& reason) = 0;
  // Its end comes back no more.
  virtual void forget_job(JobId job) = 0;
};

}  // namespace mainspring
