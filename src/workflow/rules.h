// The rules of workflows: what begins, ends and is undone when something happens.
//
// One object for each transaction; it keeps what it has read until write(), which whoever runs an
// operation calls behind it. store/workflow_operations.h has the rules in words.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "store/workflow_operations.h"
#include "workflow/in_hand.h"

namespace mainspring {

class WorkflowRules {
 public:
  // `kept`, `starts`: see there; nullptr = nothing is kept.
  WorkflowRules(WorkflowRows& rows, WallTime now, workflow::KeptWorkflows* kept = nullptr,
                workflow::KeptStarts* starts = nullptr)
      : rows_(rows), now_(now), kept_(kept), starts_(starts) {}

  Result<WorkflowStarted> start(const StartWorkflow& op);
  Result<WorkflowStarted> fork(const ForkWorkflow& op);
  Result<void> signal(const SignalWorkflow& op);
  Result<WorkflowInfo> cancel(const CancelWorkflow& op);
  Result<WorkflowInfo> pause(const PauseWorkflow& op);
  Result<WorkflowInfo> retry(const RetryWorkflow& op);
  // Steps of this workflow whose time has come, at most kMaxWoken; true: there are more.
  Result<bool> wake(WorkflowId id);
  // The job of a step has ended. Of one that its workflow does not wait for (any more): nothing.
  Result<void> ended(const StepEnd& end);
  // What was changed, to the rows. True: something was.
  bool write();
  // Those whose state is another one than before, since the last call.
  std::vector<WorkflowId> take_changed() { return std::exchange(changed_, {}); }
  // What parked a workflow: "workflow 7, step charge: …", since the last call.
  std::vector<std::string> take_alarms() { return std::exchange(alarms_, {}); }

  static constexpr int kMaxWoken = 1000;

 private:
  using Open = workflow::OpenWorkflow;
  enum class How { completed, went_on, skipped };  // how a step is no more waited for
  // What a child has to do, or what its parent is to know of it.
  enum class Tell { begin, cancel, undo, retry, by_hand, pause, resume, parked, goes_on, ended };
  struct Told {
    Tell what;
    WorkflowId child;
    std::string reason{};
  };

  // -- what is in hand
  Result<Open*> open(WorkflowId id);  // nullptr = there is none
  Open& open_new(WorkflowId id);
  Result<Open*> open_within(WorkflowId id, const Within& within);
  Result<workflow::StepStatus*> status(Open& w, int step);
  Result<std::shared_ptr<const workflow::StepDefinition>> definition(Open& w, int step);
  // What is written once, of a new one; from here on it is packed or not.
  void write_start(Open& w, workflow::StartText start, std::string queues);
  std::optional<std::string> start_text(Open& w, workflow::Text text);  // input, asked, queues
  Result<workflow::Start*> start_of(Open& w);                           // packed
  Result<workflow::StartText> read_start(Open& w);                      // the same, of its row
  void add_step(Open& w, int step, workflow::StepStatus status);
  void write_steps(Open& w);
  WorkflowInfo info(Open& w) const;
  // One with all its steps, of which none has begun. `parent`: nullptr = it is no child.
  Open& make(const WorkflowSpec& spec, const workflow::Prepared& prepared, const Open* parent,
             int step);

  // -- steps (rules.cc)
  Result<void> begin_ready(Open& w);
  Result<void> begin(Open& w, int step);
  Result<void> begin_kind(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> begin_each(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> begin_job(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> begin_part(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> listen(Open& w, int step, const std::string& name);
  Result<void> complete(Open& w, int step, const std::string& result);
  Result<void> fail(Open& w, int step, std::string reason, bool unknown);
  Result<void> skip(Open& w, int step, std::string reason);
  Result<void> no_more_waited_for(Open& w, int step, How how);
  Result<void> complete_workflow(Open& w);
  void note_undo(Open& w, int step, const workflow::StepDefinition& definition);
  Result<bool> holds(Open& w, int step, const workflow::StepDefinition& definition);
  // The values that references of a step begin with. `item` of a job of `each`.
  std::optional<std::string> value(Open& w, const std::map<std::string, int>& refs,
                                   const workflow::StepStatus* of, std::string_view name);
  std::optional<std::string> result_of(Open& w, int step);
  void note_live(Open& w, int step, JobId job);
  void forget_live(Open& w, int step);
  std::vector<JobId> live_jobs(Open& w);  // by step; not those of undoing
  void wake_at(Open& w, int step, WallTime at);
  void write_wakes(Open& w);
  Result<void> wake_step(Open& w, int step);

  // Its steps begin, or will: see goes_forward().
  static bool forward(const Open& w) { return workflow::goes_forward(w.record.state, w.summary); }
  // Those that were held: by a pause, or while it was parked.
  Result<void> release_held(Open& w);

  // -- undoing (undo.cc)
  Result<void> undo(Open& w, std::string reason, bool cancelled);
  Result<void> go_on_undoing(Open& w);
  Result<void> undo_step(Open& w, int step);
  static std::string reason_of(const StepEnd& end);
  Result<void> undo_ended(Open& w, int step, const StepEnd& end);
  Result<std::string> undo_args(Open& w, int step, const workflow::StepDefinition& definition);
  void finish(Open& w, WorkflowState state);
  Result<void> set_paused(Open& w, bool paused);

  // -- parking (park.cc)
  void park(Open& w);
  // For a step that failed, by its `on_failure`.
  void park_for(Open& w, int step, const workflow::StepDefinition& definition);
  void forget_stuck(Open& w);
  // Steps that parked it, all or those of this name; false: there is none.
  Result<bool> retry_steps(Open& w, const std::string& name, bool by_hand);
  Result<bool> retry_undos(Open& w, const std::string& name, bool by_hand);
  Result<bool> retry_stuck(Open& w, const std::string& name, bool by_hand,
                           const std::string& result);
  Result<void> leave_park(Open& w);

  // -- children (children.cc). What is told between a child and its parent is done when the one
  // that tells has come to rest, in the same transaction: every operation ends with settle().
  void tell(Tell what, WorkflowId child, std::string reason = {}) {
    told_.push_back({what, child, std::move(reason)});
  }
  void tell_children(Open& w, Tell what);  // every one that there ever was
  Result<void> settle();
  Result<void> hear(const Told& told);
  Result<void> child_does(Open& child, const Told& told);
  Result<void> child_is(Open& w, int step, Open& child, Tell what);
  Result<void> begin_child(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> child_ended(Open& w, int step, Open& child);
  Result<void> child_undone(Open& w, int step);
  // Errors: conflict (it is a step of one that has not ended, and may be undone with it).
  Result<void> check_parents_ended(Open& w);

  // -- forks (fork.cc)
  Open& open_fork(const Open& old, const ForkWorkflow& op);
  // `was`: its number in the old one, whose results these are.
  void take_over(Open& w, int step, const workflow::StepStatus& old,
                 const std::map<std::int64_t, std::string>& results, int was);

  WorkflowRows& rows_;
  WallTime now_;
  workflow::KeptWorkflows* kept_;
  workflow::KeptStarts* starts_;
  std::map<WorkflowId, std::unique_ptr<Open>> open_;
  std::vector<WorkflowId> changed_;
  std::vector<std::string> alarms_;
  std::deque<Told> told_;
};

}  // namespace mainspring
