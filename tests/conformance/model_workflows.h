// The workflows of the model store: rows in maps. All stores share the rules of their effects; the
// conformance cases test these rules.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "conformance/model_state.h"
#include "workflow/rules.h"

namespace mainspring {

template <class Op>
concept WorkflowMaker = std::same_as<Op, StartWorkflow> || std::same_as<Op, ForkWorkflow>;

template <class T>
concept OperationOnWorkflow =
    std::is_same_v<T, SignalWorkflow> || std::is_same_v<T, CancelWorkflow> ||
    std::is_same_v<T, PauseWorkflow> || std::is_same_v<T, RetryWorkflow>;

class ModelWorkflows final : private WorkflowRows {
 public:
  struct Jobs {
    std::function<JobId(const NewJob&)> make;
    std::function<void(JobId, const std::string&)> cancel;
  };
  ModelWorkflows(ModelDisk& disk, Jobs jobs) : disk_(disk), jobs_(std::move(jobs)) {}

  void begin_batch(Now now) { now_ = now; }
  bool is_step(JobId id) const { return disk_.steps.contains(id); }
  // The completion of a step's job that its workflow no longer waits for.
  bool is_late(const Record& record, const Outcome& outcome) const {
    return record.step && record.job.cancel_requested && !is_step(record.job.id) &&
           std::holds_alternative<Complete>(outcome);
  }
  void ended(const Record& record);
  bool settle();  // after each operation; true: a job ended or was made
  // Errors of operations are answers.
  OperationResult run(const StartWorkflow& op);
  OperationResult run(const SignalWorkflow& op);
  OperationResult run(const CancelWorkflow& op);
  OperationResult run(const PauseWorkflow& op);
  OperationResult run(const RetryWorkflow& op);
  OperationResult run(const ForkWorkflow& op);
  // For the workflow that it makes.
  std::int64_t steps_of(const StartWorkflow& op) const {
    return static_cast<std::int64_t>(workflow::steps_in_all(op.spec));
  }
  std::int64_t steps_of(const ForkWorkflow& op) const;
  OperationResult run(const WakeWorkflows& op);
  void prune(const StoreOptions& options);
  bool take_wrote() { return std::exchange(wrote_, false); }
  std::vector<WorkflowId> take_changed() { return std::exchange(changed_, {}); }
  std::vector<std::string> take_alarms() { return std::exchange(alarms_, {}); }

  WallTime next_wake() const;
  WallTime next_prune(const StoreOptions& options) const;
  Result<WorkflowInfo> read(WorkflowId id) const;
  WorkflowPage list(const WorkflowFilter& filter, int limit, WorkflowId before) const;
  Result<WorkflowStepPage> steps(WorkflowId id, int after, int limit) const;

 private:
  WorkflowId new_workflow() override { return ++disk_.last_workflow; }
  bool may_pack() override { return false; }  // stores pack: the comparison covers both forms
  std::optional<WorkflowRecord> load(WorkflowId id) override;
  std::vector<WorkflowRecord> by_key(const std::string& name, const std::string& key) override;
  void save(const WorkflowRecord& record, bool is_new) override;
  std::optional<std::string> row(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  void put(WorkflowId id, WorkflowRow kind, std::int64_t number, std::string_view text) override;
  void remove(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  std::vector<Row> rows(WorkflowId id, WorkflowRow kind, Order order, int limit) override;
  JobId make_job(const NewJob& job, const StepJob& of) override;
  void cancel_job(JobId job, const std::string& reason) override { jobs_.cancel(job, reason); }
  void forget_job(JobId job) override { disk_.steps.erase(job); }

  template <class F>
  OperationResult run_rules(F&& what);
  void write(WorkflowRules& rules);
  std::optional<std::string> find(WorkflowId id, WorkflowRow kind, std::int64_t number) const;

  ModelDisk& disk_;
  Jobs jobs_;
  Now now_{};
  std::vector<StepEnd> ended_;
  bool wrote_ = false;
  std::vector<WorkflowId> changed_;
  std::vector<std::string> alarms_;
};

}  // namespace mainspring
