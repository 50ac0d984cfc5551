// The nouns of a workflow: steps that belong together, and are finished or undone as a whole.
//
//   start ─▶ running ─▶ completed
//               │
//               └─(a step failed, a deadline, a cancel)─▶ undoing ─▶ undone · failed · cancelled
//                                                           │  ▲
//                                  (an undo job died)  parked ─┘  (it is tried again)
//
// A step with `on_failure` park parks one that runs: from there it goes on when the step is tried
// again or taken as done, and is undone when it is cancelled or late.
//
// A step may be a workflow itself: then it is one of its own, the child, and its end is the step's.
//
// Args, input and results are JSON text. In a step's job, a value {"$ref": "charge.id"} stands for
// what a step before it answered; docs/guides/workflows.md has the whole of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

using WorkflowId = std::int64_t;  // assigned by the store, from 1, never reused

enum class WorkflowState : std::uint8_t {
  running,
  undoing,    // its failed, cancelled or late: jobs that run are ended, then steps are undone
  parked,     // an undo job died, or a step with `on_failure` park: somebody must look
  completed,  // terminal: every step ended well, or was skipped (of a child: until it is undone)
  failed,     // terminal: a step failed, and nothing was to be undone
  undone,     // terminal: a step failed, and every step that was to be undone is
  cancelled,  // terminal: somebody said stop; what was to be undone is
};
inline constexpr int kWorkflowStateCount = 7;
std::string_view to_string(WorkflowState state);
std::optional<WorkflowState> parse_workflow_state(std::string_view text);
constexpr bool is_terminal(WorkflowState s) {
  return s >= WorkflowState::completed;
}

enum class StepState : std::uint8_t {
  waiting,      // for the steps before it
  running,      // its job or workflow lives, its time is not over, its signal has not come
  completed,    // well; or it failed and the workflow goes on without it
  failed,       //
  skipped,      // its condition did not hold, or every step before it was skipped
  undoing,      // its undo job lives, or its workflow is undone
  undone,       //
  undo_failed,  // its undo job died, or its workflow is parked
};
inline constexpr int kStepStateCount = 8;
std::string_view to_string(StepState state);
std::optional<StepState> parse_step_state(std::string_view text);

// Holds when the value that `ref` names equals `equals`, or if that is "" is neither null, false,
// 0, "", [] nor {}; a value that is not there does not hold. The other way round with `negate`.
struct StepCondition {
  std::string ref;
  std::string equals;  // JSON, "" = see above
  bool negate = false;
  friend bool operator==(const StepCondition&, const StepCondition&) = default;
};

// What becomes of the workflow: it is undone, goes on as if the step had completed, or is parked
// until somebody has the step tried again, takes it as done, or cancels the workflow.
enum class OnStepFailure : std::uint8_t { undo, go_on, park };  // "undo", "continue", "park"

struct WorkflowSpec;

// The definition of a workflow that is a step of another one; or none.
class SubWorkflow {
 public:
  SubWorkflow() = default;
  SubWorkflow(const WorkflowSpec& spec);  // NOLINT(google-explicit-constructor): a value of it
  explicit operator bool() const { return spec_ != nullptr; }
  const WorkflowSpec& operator*() const { return *spec_; }
  const WorkflowSpec* operator->() const { return spec_.get(); }
  friend bool operator==(const SubWorkflow& a, const SubWorkflow& b);

 private:
  std::shared_ptr<const WorkflowSpec> spec_;
};

// Exactly one of job, workflow, sleep and signal.
struct StepSpec {
  std::string name;                // 1 to 64 of [A-Za-z0-9_-], not "input", "item", "workflow"
  std::vector<std::string> after;  // steps; those that it refers to are so without being named
  std::optional<NewJob> job;       // without unique, run_at, delay and expires_in
  // Started when the step begins, as a workflow of its own: the child. References in its input are
  // resolved then, and are the parent's; those below it are its own. Its end is the end of the
  // step, its result the step's. It has no key.
  SubWorkflow workflow;
  std::optional<Duration> sleep;  // a timer
  std::string signal;             // waits for a signal of this name, which is its result
  // With job or workflow: a JSON array, or {"$ref": …} of one: a job or a child for each element,
  // {"$ref": "item"} in its args or input; the step's result is the array of theirs, in order.
  std::string each;
  std::optional<StepCondition> only_if;  // "if"
  // From its begin: then it has failed, with what it did unknown. Its job is cancelled, and an
  // answer that comes late is not taken. A child is cancelled, and the step fails when it is
  // undone.
  std::optional<Duration> deadline;
  OnStepFailure on_failure = OnStepFailure::undo;
  // Undoes what the job did; made if that was completed, or if nobody knows (its worker was lost,
  // it was cancelled while it ran, it was late). With {} as args it gets {"step", "args", "result"}
  // of the job that it undoes. A child is undone by the undo jobs of its own steps.
  std::optional<NewJob> undo;
  bool undo_if_failed = false;  // also where the job itself said that it failed
  friend bool operator==(const StepSpec&, const StepSpec&) = default;
};

enum class UndoOrder : std::uint8_t { reverse, parallel };

struct WorkflowSpec {
  std::string name;          // a name as of queues: what is listed together
  std::string input = "{}";  // JSON, up to kMaxArgsBytes; {"$ref": "input.…"}
  std::vector<StepSpec> steps;
  UndoOrder undo_order = UndoOrder::reverse;  // of completion
  std::optional<Duration> deadline;           // from its start: then as if a step had failed
  std::string result;                         // JSON with references, "" = null
  // One workflow per name and key, while it is kept: starting it again answers the first.
  std::string key;
  friend bool operator==(const WorkflowSpec&, const WorkflowSpec&) = default;
};

struct WorkflowStep {
  int number = 0;  // from 1, in the order of the definition; jobs of `each` come behind
  std::string name;
  StepState state = StepState::waiting;
  std::vector<std::string> after;
  JobId job = 0, undo_job = 0;  // the last ones
  WorkflowId workflow = 0;      // its child
  int of = 0;                   // the number of the step with `each` that it belongs to, 0 = none
  int index = 0;                // and its element
  std::string result;           // JSON, "" = none
  std::string reason;           // of failed and skipped ones
  std::optional<WallTime> started_at, ended_at;
  bool taken_over = false;  // of a fork: it ended in the workflow that was forked
  // Of one whose job, or undo job, has not ended: what that job says now.
  std::optional<JobState> job_state;
  int attempt = 0, max_attempts = 0;
  std::string worker;  // that has it now, "" = none
  // Its deadline, or the end of the time limit of the attempt that runs: the earlier one.
  std::optional<WallTime> complete_by;
};

// A fork takes over what its workflow did before `step`, and begins this step anew.
struct ForkedFrom {
  WorkflowId id = 0;  // it may be gone by now
  std::string step;
  friend bool operator==(const ForkedFrom&, const ForkedFrom&) = default;
};

// What a child is a step of.
struct WorkflowParent {
  WorkflowId workflow = 0;
  std::string step;
  friend bool operator==(const WorkflowParent&, const WorkflowParent&) = default;
};

struct WorkflowInfo {
  WorkflowId id = 0;
  std::string name, key;
  WorkflowState state = WorkflowState::running;
  bool paused = false;
  std::string reason;  // why it is undone, parked or cancelled
  std::string input, result;
  std::vector<std::string> queues;  // of its jobs
  int steps = 0;                    // in all, those of `each` included
  int completed = 0, failed = 0, skipped = 0, running = 0, undone = 0, undo_failed = 0;
  WallTime started_at;
  std::optional<WallTime> finished_at, deadline_at;
  std::int64_t version = 1;  // grows with every change
  std::optional<ForkedFrom> forked_from;
  std::optional<WorkflowParent> parent;
};
struct WorkflowPage {
  std::vector<WorkflowInfo> workflows;  // newest first; without input, result and queues
  std::optional<WorkflowId> next;       // pass as `before`; nullopt = no more
};
struct WorkflowStepPage {
  std::vector<WorkflowStep> steps;  // by number
  std::optional<int> next;          // pass as `after`; nullopt = no more
};

inline constexpr std::size_t kMaxWorkflowSteps = 10'000;  // with those of workflows in it
inline constexpr int kMaxWorkflowDepth = 4;               // a workflow in one in one in one
inline constexpr std::size_t kMaxFanOut = 10'000;         // elements of one `each`
inline constexpr std::size_t kMaxStepsInAll = 100'000;    // of one workflow
inline constexpr std::size_t kMaxStepNameBytes = 64;
inline constexpr std::size_t kMaxStepParents = 10'000;     // of one step
inline constexpr std::size_t kMaxWorkflowEdges = 100'000;  // of one workflow
inline constexpr std::size_t kMaxWorkflowSignals = 1000;   // that no step has taken yet
inline constexpr std::size_t kMaxSignalBytes = 64 << 10;
inline constexpr std::size_t kMaxForkedBytes = 64 << 20;  // results of steps of one that is forked

// Every rule of a definition that needs no store: names, kinds of steps, jobs, references, circles.
// Errors: invalid_argument with `field`, for example steps[3].job.kind or
// steps[0].workflow.steps[3].job.kind; too_large.
Result<void> validate(const WorkflowSpec& spec);

}  // namespace mainspring
