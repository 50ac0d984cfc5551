// The interface that the workflow rules need from a store, within the current transaction.
//
// A store has two tables: one row per workflow, with the columns used to find it, and numbered text
// rows of each workflow, by kind. Only the rules interpret their contents.
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

// Earlier than any retention allows.
inline constexpr WallTime kGoesWithParent = WallTime::from_us(-4'000'000'000'000'000'000);

// The row of a workflow.
struct WorkflowRecord {
  WorkflowId id = 0;
  std::string name, key;
  WorkflowState state = WorkflowState::running;
  WallTime wake_at = WallTime::never();  // WakeWorkflows; part of the agenda
  // For a terminal workflow: start of its retention. Not set for a child: the removal of its parent
  // sets it to kGoesWithParent, so that the child is removed too.
  WallTime finished_at = WallTime::never();
  std::string data;  // the rest: see workflow/step_rows.h
  friend bool operator==(const WorkflowRecord&, const WorkflowRecord&) = default;
};

enum class WorkflowRow : std::uint8_t {  // and the meaning of their numbers
  text,                                  // of the workflow: input, result (WorkflowText)
  spec,                                  // by step: definition, parents, children
  state,                                 // by step: mutable state
  result,                                // of steps; step
  item,                                  // of jobs of `each`; step
  undo,        // what may have to be undone, in order of the ends
  live,        // by step: its job or undo job has not ended
  wake,        // steps with a wake time, by microseconds since 1970
  signal,      // signals not taken by a step, in order of arrival
  listen,      // by step: waits for a signal
  held,        // by step: starts when the pause ends
  heard,       // signal ids, in order of arrival
  child,       // by step: the id of its child workflow
  live_child,  // by child id: the step whose child has not ended
  stuck,       // by step: failed, waits for an operator (`on_failure` park)
};
inline constexpr int kWorkflowRowKinds = 15;
inline constexpr int kMaxOfKey = 1000;  // callers that share a name and a key, and nothing else

// The step that a job belongs to.
struct StepJob {
  WorkflowId workflow = 0;
  int step = 0;
  bool undo = false;
  friend bool operator==(const StepJob&, const StepJob&) = default;
};
// How a job of a step ended. `unknown`: its effect is unknown, because an attempt ended without a
// report of its worker, or the job was cancelled while it was running.
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
  // Whether small new workflows are packed (workflow::kMaxPackedSteps). False in tests of the other
  // form.
  virtual bool may_pack() = 0;
  // Also locks the workflow against other nodes until the end of the transaction.
  virtual std::optional<WorkflowRecord> load(WorkflowId id) = 0;
  // Of this name and key, with removed ones (workflow::is_removed): the newest first, at most
  // kMaxOfKey. Other transactions that ask for the same wait.
  virtual std::vector<WorkflowRecord> by_key(const std::string& name, const std::string& key) = 0;
  virtual void save(const WorkflowRecord& record, bool is_new) = 0;

  virtual std::optional<std::string> row(WorkflowId id, WorkflowRow kind, std::int64_t number) = 0;
  virtual void put(WorkflowId id, WorkflowRow kind, std::int64_t number, std::string_view text) = 0;
  virtual void remove(WorkflowId id, WorkflowRow kind, std::int64_t number) = 0;
  // From the lowest number up, or from the highest down, at most `limit`.
  enum class Order { up, down };
  virtual std::vector<Row> rows(WorkflowId id, WorkflowRow kind, Order order, int limit) = 0;

  // Makes the job of a step: available, or as its session requires. Its end returns as a StepEnd,
  // after the operation that ended it.
  virtual JobId make_job(const NewJob& job, const StepJob& of) = 0;
  // Like Cancel, but skips an ended job. If the job is not running, its StepEnd follows the
  // operation.
  virtual void cancel_job(JobId job, const std::string& reason) = 0;
  // The end of this job is no longer reported.
  virtual void forget_job(JobId job) = 0;
};

}  // namespace mainspring
