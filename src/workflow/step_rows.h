// What stands in the rows of a workflow, as text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/access.h"
#include "workflow/definition.h"
#include "workflow/rows.h"

namespace mainspring::workflow {

// A workflow of few steps is packed: the states of those of its definition stand in
// WorkflowRecord::data, and what is written once when it starts in one row (StartText). Their ends
// then change that one row and no other. Which of its jobs live is told by these states, not by
// WorkflowRow::live. Jobs of `each` have rows of their own.
inline constexpr std::size_t kMaxPackedSteps = 16;
inline constexpr std::size_t kMaxPackedText = 8 << 10;   // of all definitions, and what is asked
inline constexpr std::size_t kMaxPackedInput = 4 << 10;  // a larger one has its own row

// WorkflowRow::state.
struct StepStatus {
  StepState state = StepState::waiting;
  int pending = 0;  // steps before it that have not ended; of a step with `each`, begun: its jobs
  int came = 0;     // of those that ended: not skipped
  JobId job = 0, undo_job = 0;
  WorkflowId workflow = 0;   // the child
  int of = 0, index = 0;     // see WorkflowStep
  std::int64_t seq = 0;      // of its end
  int first = 0, count = 0;  // its jobs of `each`
  std::string reason;
  std::int64_t started_at = 0, ended_at = 0;
  bool taken_over = false;  // see WorkflowStep
  bool unknown = false;     // one of its jobs may have done it all the same
  friend bool operator==(const StepStatus&, const StepStatus&) = default;
};
std::string encode(const StepStatus& status);
Result<StepStatus> decode_status(std::string_view text);

// WorkflowRecord::data.
struct Summary {
  bool paused = false;
  std::string reason;
  WallTime started_at, deadline_at = WallTime::never();
  UndoOrder undo_order = UndoOrder::reverse;
  bool cancelled = false;  // how it is to end, once it is undone
  std::int64_t version = 1;
  int steps = 0;         // in all: the next has the number behind
  int open = 0;          // of the definition, not ended
  int live = 0;          // jobs of steps, and children
  int parked = 0;        // of these children
  int undoing = 0;       // undo jobs
  int stuck = 0;         // steps that failed and wait for somebody: WorkflowRow::stuck
  std::int64_t seq = 0;  // of the last end
  std::int64_t signals = 0, waiting_signals = 0, heard = 0;
  int completed = 0, failed = 0, skipped = 0, running = 0, undone = 0, undo_failed = 0;
  std::map<std::string, int> refs;  // of the result
  ForkedFrom forked_from;           // id 0 = it is no fork
  WorkflowParent parent;            // workflow 0 = it is no child
  int parent_step = 0;              // its number
  WallTime ended_at;                // of a child
  std::vector<StepStatus> states;   // packed: of steps 1, 2, …; else empty
  std::string queues;               // packed: kTextQueues
  friend bool operator==(const Summary&, const Summary&) = default;

  bool packed() const { return !states.empty(); }
};
std::string encode(const Summary& summary);
Result<Summary> decode_summary(std::string_view text);
bool is_packed(std::string_view summary);  // without a look at the rest

// WorkflowRow::spec. Of a job of `each` that of its step.
struct StepDefinition {
  StepSpec spec;
  PlannedStep plan;
};
std::string encode(const StepDefinition& step);
Result<StepDefinition> decode_definition(std::string_view text);

// What of a definition is written once, when it starts, and read ever after.
struct Prepared {
  struct Step {
    std::shared_ptr<const StepDefinition> definition;
    std::string text;
  };
  std::vector<Step> steps;
  std::string queues;               // kTextQueues
  std::map<std::string, int> refs;  // of the result
};
Prepared prepare(const WorkflowSpec& spec, std::vector<PlannedStep> plan);

// WorkflowRow::text. Of a packed one kTextStart is there instead of kTextResultAsked, kTextQueues
// and, unless it is large, kTextInput.
enum Text : std::int64_t { kTextInput, kTextResultAsked, kTextResult, kTextQueues, kTextStart };

// kTextStart.
struct StartText {
  std::string input;               // "" = it has its own row
  std::string asked;               // kTextResultAsked; "" = none
  std::vector<std::string> specs;  // WorkflowRow::spec of steps 1, 2, …
  friend bool operator==(const StartText&, const StartText&) = default;
};
std::string encode(const StartText& start);
Result<StartText> decode_start(std::string_view text);

bool may_touch(std::string_view queues, const Within& within);  // kTextQueues: a line for each

// The idempotency key of what a step does: see api/step_key.h. No other step of this or another
// store has it, as far as names and the time of their start tell stores apart.
std::string key_of(const WorkflowRecord& record, const Summary& summary, int step);

// Its steps go on, or will when somebody has seen to those that are stuck: it is not undone.
inline bool goes_forward(WorkflowState state, const Summary& summary) {
  return state == WorkflowState::running || (state == WorkflowState::parked && summary.stuck > 0);
}

// For whoever reads: from what the rows say.
WorkflowInfo info_of(const WorkflowRecord& record);  // without input and result
WorkflowStep step_of(int number, const StepStatus& status, const StepDefinition& definition,
                     bool goes_forward);

}  // namespace mainspring::workflow
