// WorkflowRules: what starts, ends and is undone in response to an event.
//
// One object per transaction. It caches rows until write(), which the store calls after each
// operation. store/workflow_operations.h states the rules.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "store/workflow_operations.h"
#include "workflow/loaded_workflows.h"

namespace mainspring {

class WorkflowRules {
 public:
  // `kept`, `starts`: see there; nullptr = no caching.
  WorkflowRules(WorkflowRows& rows, WallTime now, workflow::KeptWorkflows* kept = nullptr,
                workflow::KeptStarts* starts = nullptr)
      : rows_(rows), now_(now), kept_(kept), starts_(starts) {}

  Result<WorkflowStarted> start(const StartWorkflow& op);
  Result<WorkflowStarted> fork(const ForkWorkflow& op);
  Result<void> signal(const SignalWorkflow& op);
  Result<WorkflowInfo> cancel(const CancelWorkflow& op);
  Result<WorkflowInfo> pause(const PauseWorkflow& op);
  Result<WorkflowInfo> retry(const RetryWorkflow& op);
  // Wakes steps of this workflow that are due, at most kMaxWoken; true: there are more.
  Result<bool> wake(WorkflowId id);
  // A job of a step has ended. Ignored if the workflow does not, or no longer, wait for the job.
  Result<void> ended(const StepEnd& end);
  // Writes changes to the rows. True: something was written.
  bool write();
  // Workflows whose state changed since the last call.
  std::vector<WorkflowId> take_changed() { return std::exchange(changed_, {}); }
  // Causes of parking since the last call: "workflow 7, step charge: …".
  std::vector<std::string> take_alarms() { return std::exchange(alarms_, {}); }

  static constexpr int kMaxWoken = 1000;

 private:
  using Open = workflow::OpenWorkflow;
  enum class How { completed, went_on, skipped };  // why a step is no longer waited for
  // A command to a child, or a report to its parent.
  enum class Tell { begin, cancel, undo, retry, by_hand, pause, resume, parked, goes_on, ended };
  struct Notice {
    Tell what;
    WorkflowId child;
    std::string reason{};
  };

  // -- loaded workflows
  Result<Open*> open(WorkflowId id);  // nullptr = not found
  Open& open_new(WorkflowId id);
  Result<Open*> open_within(WorkflowId id, const Within& within);
  Result<workflow::StepStatus*> status(Open& w, int step);
  Result<std::shared_ptr<const workflow::StepDefinition>> definition(Open& w, int step);
  // Writes the start data of a new workflow, and decides whether it is packed.
  void write_start(Open& w, workflow::StartText start, std::string queues);
  std::optional<std::string> start_text(Open& w, workflow::Text text);  // input, asked, queues
  Result<workflow::Start*> start_of(Open& w);                           // packed
  Result<workflow::StartText> read_start(Open& w);                      // the same, from its row
  // The workflow that holds this key for these callers.
  std::optional<WorkflowId> holder_of(const std::string& name, const std::string& key,
                                      const Within& within);
  void add_step(Open& w, int step, workflow::StepStatus status);
  void write_steps(Open& w);
  WorkflowInfo info(Open& w) const;
  // Creates a workflow with all its steps, none of which has started. `parent`: nullptr = not a
  // child.
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
  enum class Fault { of_step, too_large };
  Result<void> fail(Open& w, int step, std::string reason, bool unknown,
                    Fault fault = Fault::of_step);
  // For text with references that could not be resolved: "its args: …".
  Result<void> fail_to_resolve(Open& w, int step, std::string_view what, const Error& error);
  // Adds to the results that a later step refers to, and reports when they are too large together.
  Result<void> note_results(Open& w, int step, std::size_t bytes);
  void tell_too_large(Open& w, std::string_view step, std::string_view results);
  Result<void> skip(Open& w, int step, std::string reason);
  Result<void> no_more_waited_for(Open& w, int step, How how);
  Result<void> complete_workflow(Open& w);
  void note_undo(Open& w, int step, const workflow::StepDefinition& definition);
  Result<bool> holds(Open& w, int step, const workflow::StepDefinition& definition);
  // The value that a step's reference starts with. `item`: that of a job of `each`.
  std::optional<std::string> value(Open& w, const std::map<std::string, int>& refs,
                                   const workflow::StepStatus* of, std::string_view name);
  std::optional<std::string> result_of(Open& w, int step);
  void note_live(Open& w, int step, JobId job);
  void forget_live(Open& w, int step);
  std::vector<JobId> live_jobs(Open& w);  // by step; without undo jobs
  void wake_at(Open& w, int step, WallTime at);
  void write_wakes(Open& w);
  Result<void> wake_step(Open& w, int step);

  // Whether steps start now or later: see goes_forward().
  static bool forward(const Open& w) { return workflow::goes_forward(w.record.state, w.summary); }
  // Starts the steps that were held by a pause or by parking.
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
  // Parks for a failed step, by its `on_failure`.
  void park_for(Open& w, int step, const workflow::StepDefinition& definition);
  void forget_stuck(Open& w);
  // Retries the steps that parked it, all or those of this name; false: there are none.
  Result<bool> retry_steps(Open& w, const std::string& name, bool by_hand);
  Result<bool> retry_undos(Open& w, const std::string& name, bool by_hand);
  Result<bool> retry_stuck(Open& w, const std::string& name, bool by_hand,
                           const std::string& result);
  Result<void> leave_park(Open& w);

  // -- children (children.cc). Messages between a child and its parent are queued and handled after
  // the sender has finished, in the same transaction: every operation ends with settle().
  void tell(Tell what, WorkflowId child, std::string reason = {}) {
    notices_.push_back({what, child, std::move(reason)});
  }
  void tell_children(Open& w, Tell what);  // every child, including ended ones
  Result<void> settle();
  Result<void> hear(const Notice& notice);
  Result<void> child_does(Open& child, const Notice& notice);
  Result<void> child_is(Open& w, int step, Open& child, Tell what);
  Result<void> begin_child(Open& w, int step, const workflow::StepDefinition& definition);
  Result<void> child_ended(Open& w, int step, Open& child);
  Result<void> child_undone(Open& w, int step);
  // Errors: conflict (a child of a workflow that has not ended, and could still undo it).
  Result<void> check_parents_ended(Open& w);

  // -- forks (fork.cc)
  Open& open_fork(const Open& old, const ForkWorkflow& op);
  // `was`: the step's number in the original workflow, which `results` uses.
  void take_over(Open& w, int step, const workflow::StepStatus& old,
                 const std::map<std::int64_t, std::string>& results, int was);

  WorkflowRows& rows_;
  WallTime now_;
  workflow::KeptWorkflows* kept_;
  workflow::KeptStarts* starts_;
  std::map<WorkflowId, std::unique_ptr<Open>> open_;
  std::vector<WorkflowId> changed_;
  std::vector<std::string> alarms_;
  std::deque<Notice> notices_;
};

}  // namespace mainspring
