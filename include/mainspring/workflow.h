// The types of a workflow: steps that are all completed or all undone.
//
//   start ─▶ running ─▶ completed
//               │
//               └─(a step failed, a deadline, a cancel)─▶ undoing ─▶ undone · failed · cancelled
//                                                           │  ▲
//                                  (an undo job died)  parked ─┘  (it is tried again)
//
// A step with `on_failure` park parks a running workflow. The workflow continues when the step is
// retried or marked as done. It is undone when it is cancelled or late.
//
// A step may be a workflow itself: the child. The child's end is the end of the step.
//
// Args, input and results are JSON text. In a step's job, a value {"$ref": "charge.id"} is replaced
// by the result of an earlier step; see docs/guides/workflows.md.
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
  undoing,    // a step failed, or it is cancelled or late: running jobs end, then steps are undone
  parked,     // an undo job died, or a step with `on_failure` park failed: an operator must decide
  completed,  // terminal: every step completed or was skipped (a child can still be undone)
  failed,     // terminal: a step failed, and nothing had to be undone
  undone,     // terminal: a step failed, and every step that had to be undone is
  cancelled,  // terminal: cancelled by a request, and undone where needed
};
inline constexpr int kWorkflowStateCount = 7;
std::string_view to_string(WorkflowState state);
std::optional<WorkflowState> parse_workflow_state(std::string_view text);
constexpr bool is_terminal(WorkflowState s) {
  return s >= WorkflowState::completed;
}

enum class StepState : std::uint8_t {
  waiting,      // for earlier steps
  running,      // its job or workflow is live, its sleep is not over, or its signal is missing
  completed,    // also if it failed and the workflow continues without it
  failed,       //
  skipped,      // its condition is false, or every step before it was skipped
  undoing,      // its undo job is live, or its workflow is being undone
  undone,       //
  undo_failed,  // its undo job died, or its workflow is parked
};
inline constexpr int kStepStateCount = 8;
std::string_view to_string(StepState state);
std::optional<StepState> parse_step_state(std::string_view text);

// True when the value that `ref` names equals `equals`. If `equals` is "": when the value is not
// null, false, 0, "", [] or {}. False if there is no value. `negate` inverts it.
struct StepCondition {
  std::string ref;
  std::string equals;  // JSON; "" = see above
  bool negate = false;
  friend bool operator==(const StepCondition&, const StepCondition&) = default;
};

// What a failed step does to its workflow: undo it, continue as if the step had completed, or park
// it until an operator retries the step, marks it as done, or cancels the workflow.
enum class OnStepFailure : std::uint8_t { undo, go_on, park };  // "undo", "continue", "park"

struct WorkflowSpec;

// The definition of a workflow that is a step of another one; may be empty.
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
  std::vector<std::string> after;  // earlier steps; steps that it refers to are added
  std::optional<NewJob> job;       // without unique, run_at, delay and expires_in
  // A child workflow, started when the step starts. References in its input are resolved then, and
  // name steps of the parent; references in its steps name its own steps. The child's end and
  // result are those of the step. It has no key.
  SubWorkflow workflow;
  std::optional<Duration> sleep;  // a timer
  std::string signal;             // waits for a signal of this name; its payload is the result
  // With job or workflow: a JSON array, or {"$ref": …} of one. Creates a job or child for each
  // element; {"$ref": "item"} in its args or input is the element. The step's result is the array
  // of their results, in order.
  std::string each;
  std::optional<StepCondition> only_if;  // "if"
  // Time limit from the start of the step. After it the step fails, and its effect is unknown: its
  // job is cancelled, and a late result is ignored. A child is cancelled, and the step fails when
  // the child is undone.
  std::optional<Duration> deadline;
  OnStepFailure on_failure = OnStepFailure::undo;
  // Undoes the effect of the job. Created if the job completed, or if its effect is unknown (its
  // worker was lost, it was cancelled while it ran, it was late). If its args are {}, it gets
  // {"step", "args", "result"} of the job. A child is undone by the undo jobs of its own steps.
  std::optional<NewJob> undo;
  bool undo_if_failed = false;  // also undo it when the job itself reported a failure
  friend bool operator==(const StepSpec&, const StepSpec&) = default;
};

enum class UndoOrder : std::uint8_t { reverse, parallel };

inline constexpr Duration kDefaultWorkflowKeyFor = std::chrono::hours(24 * 30);
inline constexpr Duration kMaxWorkflowKeyFor = std::chrono::hours(24 * 365);

struct WorkflowSpec {
  std::string name;          // see check_name; workflows of a name are listed together
  std::string input = "{}";  // JSON, up to kMaxArgsBytes; {"$ref": "input.…"}
  std::vector<StepSpec> steps;
  UndoOrder undo_order = UndoOrder::reverse;  // of completion
  std::optional<Duration> deadline;           // from its start; then it is undone
  std::string result;                         // JSON with references, "" = null
  // One workflow per name and key: starting it again returns the first, until `key_for` after its
  // end (0 = until its end), also if it has been removed by then. Callers that may not use all
  // queues of a workflow have keys of their own.
  std::string key;
  Duration key_for = kDefaultWorkflowKeyFor;  // up to kMaxWorkflowKeyFor
  friend bool operator==(const WorkflowSpec&, const WorkflowSpec&) = default;
};

struct WorkflowStep {
  int number = 0;  // from 1, in the order of the definition; jobs of `each` follow
  std::string name;
  StepState state = StepState::waiting;
  std::vector<std::string> after;
  JobId job = 0, undo_job = 0;  // the latest ones
  WorkflowId workflow = 0;      // its child
  int of = 0;                   // the number of the step with `each` that created it, 0 = none
  int index = 0;                // and its element
  std::string result;           // JSON, "" = none
  std::string reason;           // of failed and skipped steps
  std::optional<WallTime> started_at, ended_at;
  bool taken_over = false;  // of a fork: it ended in the original workflow
  // While its job or undo job is live: the state of that job.
  std::optional<JobState> job_state;
  int attempt = 0, max_attempts = 0;
  std::string worker;  // that holds the job, "" = none
  // Its deadline, or the end of the time limit of the running attempt: the earlier one.
  std::optional<WallTime> complete_by;
};

// A fork takes over the steps that its original did before `step`, and starts at `step`.
struct ForkedFrom {
  WorkflowId id = 0;  // it may be pruned
  std::string step;
  friend bool operator==(const ForkedFrom&, const ForkedFrom&) = default;
};

// The step that started a child.
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
  int steps = 0;                    // in all, including those of `each`
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

inline constexpr std::size_t kMaxWorkflowSteps = 10'000;  // including those of child workflows
inline constexpr int kMaxWorkflowDepth = 4;               // levels of nested workflows
inline constexpr std::size_t kMaxFanOut = 10'000;         // elements of one `each`
inline constexpr std::size_t kMaxStepsInAll = 100'000;    // of one workflow
inline constexpr std::size_t kMaxStepNameBytes = 64;
inline constexpr std::size_t kMaxStepParents = 10'000;     // of one step
inline constexpr std::size_t kMaxWorkflowEdges = 100'000;  // of one workflow
inline constexpr std::size_t kMaxWorkflowSignals = 1000;   // not yet taken by a step
inline constexpr std::size_t kMaxSignalBytes = 64 << 10;
inline constexpr std::size_t kMaxForkedBytes = 64 << 20;  // step results that a fork takes over

// Checks every rule of a definition that needs no store: names, kinds of steps, jobs, references,
// cycles.
// Errors: invalid_argument with `field`, for example steps[3].job.kind or
// steps[0].workflow.steps[3].job.kind; too_large.
Result<void> validate(const WorkflowSpec& spec);

}  // namespace mainspring
