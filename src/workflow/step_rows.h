// The text format of a workflow's rows.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/access.h"
#include "workflow/definition.h"
#include "workflow/rows.h"

namespace mainspring::workflow {

// A workflow with few steps is packed: the states of its definition's steps are in
// WorkflowRecord::data, and the data written once at its start is in one row (StartText). So the
// end of a step changes only one row. These states, not WorkflowRow::live, show which jobs are
// live. Jobs of `each` have rows of their own.
inline constexpr std::size_t kMaxPackedSteps = 16;
inline constexpr std::size_t kMaxPackedText = 8 << 10;   // all definitions and the requested result
inline constexpr std::size_t kMaxPackedInput = 4 << 10;  // a larger input has its own row

// WorkflowRow::state.
struct StepStatus {
  StepState state = StepState::waiting;
  int pending = 0;  // unfinished steps before it; for a started `each`: its jobs
  int came = 0;     // of those that ended: not skipped
  JobId job = 0, undo_job = 0;
  WorkflowId workflow = 0;   // the child
  int of = 0, index = 0;     // see WorkflowStep
  std::int64_t seq = 0;      // of its end
  int first = 0, count = 0;  // its jobs of `each`
  std::int64_t bytes = 0;    // of their results
  std::string reason;
  std::int64_t started_at = 0, ended_at = 0;
  bool taken_over = false;  // see WorkflowStep
  bool unknown = false;     // one of its jobs may have had its effect
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
  bool cancelled = false;  // how the workflow ends after it is undone
  std::int64_t version = 1;
  int steps = 0;         // total number; the next step gets the number after it
  int open = 0;          // steps of the definition that have not ended
  int live = 0;          // jobs of steps, and children
  int parked = 0;        // parked children
  int undoing = 0;       // undo jobs
  int stuck = 0;         // failed steps that wait for an operator: WorkflowRow::stuck
  std::int64_t seq = 0;  // of the last end
  std::int64_t signals = 0, waiting_signals = 0, heard = 0;
  int completed = 0, failed = 0, skipped = 0, running = 0, undone = 0, undo_failed = 0;
  std::map<std::string, int> refs;  // of the result
  ForkedFrom forked_from;           // id 0 = not a fork
  WorkflowParent parent;            // workflow 0 = not a child
  int parent_step = 0;              // its number
  WallTime ended_at;                // of a child
  std::vector<StepStatus> states;   // packed: of steps 1, 2, …; else empty
  std::string queues;               // packed, or with a key: kTextQueues
  Duration key_for{0};
  WallTime key_until;    // set at the end
  bool removed = false;  // only its key is left
  friend bool operator==(const Summary&, const Summary&) = default;

  bool packed() const { return !states.empty(); }
};
std::string encode(const Summary& summary);
Result<Summary> decode_summary(std::string_view text);
bool is_packed(std::string_view summary);  // checks only the start of the text
bool is_removed(std::string_view summary);
// What stays of a workflow when its retention ends: its key, if that still holds; nullopt =
// nothing. `retention`: the record is found again when it has passed once more.
std::optional<WorkflowRecord> left_of(const WorkflowRecord& record, Duration retention,
                                      WallTime now);

// WorkflowRow::spec. Jobs of `each` use the definition of their step.
struct StepDefinition {
  StepSpec spec;
  PlannedStep plan;
};
std::string encode(const StepDefinition& step);
Result<StepDefinition> decode_definition(std::string_view text);

// The part of a definition that is written once at the start, and then only read.
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

// WorkflowRow::text. A packed workflow has kTextStart instead of kTextResultAsked, kTextQueues and,
// unless the input is large, kTextInput.
enum Text : std::int64_t { kTextInput, kTextResultAsked, kTextResult, kTextQueues, kTextStart };

// kTextStart.
struct StartText {
  std::string input;               // "" = in a row of its own
  std::string asked;               // kTextResultAsked; "" = none
  std::vector<std::string> specs;  // WorkflowRow::spec of steps 1, 2, …
  friend bool operator==(const StartText&, const StartText&) = default;
};
std::string encode(const StartText& start);
Result<StartText> decode_start(std::string_view text);

bool may_touch(std::string_view queues, const Within& within);  // kTextQueues: one queue per line

// The idempotency key of a step: see api/step_key.h. Unique over steps and stores, as far as names
// and start times distinguish stores.
std::string key_of(const WorkflowRecord& record, const Summary& summary, int step);

// Whether its steps continue now, or after an operator has handled stuck steps; false: it is
// undone.
inline bool goes_forward(WorkflowState state, const Summary& summary) {
  return state == WorkflowState::running || (state == WorkflowState::parked && summary.stuck > 0);
}

// For readers: assembled from the rows.
WorkflowInfo info_of(const WorkflowRecord& record);  // without input and result
WorkflowStep step_of(int number, const StepStatus& status, const StepDefinition& definition,
                     bool goes_forward);

}  // namespace mainspring::workflow
