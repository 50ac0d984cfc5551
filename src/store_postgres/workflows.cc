// Workflows: operations and the effects of ended steps. src/workflow implements the rules.
//
// Lock order: the jobs that ended ▶ the jobs of workflows that may be cancelled with them ▶
// workflows, by id ▶ new rows. If a transaction learns too late what it must lock, it breaks this
// order and may deadlock; the database detects this, and the batch is retried.

#include <algorithm>
#include <type_traits>

#include "api/workflow_shapes.h"
#include "store_postgres/store_impl.h"
#include "workflow/step_rows.h"

namespace mainspring::pg {
namespace {

constexpr Duration kLongestRetention = std::chrono::hours(24 * 365 * 1000);

PgError damaged_workflow(const Error& error) {
  return {"XX001", error.message, false};
}

std::vector<WorkflowId> ids_of(const Rows& rows) {
  std::vector<WorkflowId> ids;
  for (int i = 0; i < rows.size(); ++i) ids.push_back(rows.integer(i, 0));
  return ids;
}

bool all_complete(const Finish& finish) {
  return std::all_of(finish.results.begin(), finish.results.end(), [](const JobOutcome& result) {
    return std::holds_alternative<Complete>(result.outcome);
  });
}

WorkflowId workflow_named(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> WorkflowId {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, SignalWorkflow> || std::is_same_v<Op, CancelWorkflow> ||
                      std::is_same_v<Op, PauseWorkflow> || std::is_same_v<Op, RetryWorkflow> ||
                      std::is_same_v<Op, ForkWorkflow>)
          return op.id;
        return 0;
      },
      operation);
}

}  // namespace

// -- effects of ended steps -----------------------------------------------------------------------

bool PostgresStore::settle_workflows() {
  if (ended_steps_.empty()) return false;
  std::vector<StepEnd> ends = std::exchange(ended_steps_, {});
  workflows_.take_ended(ends);
  WorkflowRules rules(workflows_, now_.wall, nullptr, &workflows_.starts());
  for (const StepEnd& end : ends) {
    const auto done = rules.ended(end);
    if (!done) throw damaged_workflow(done.error());
  }
  write_workflows(rules);
  return true;
}

void PostgresStore::write_workflows(WorkflowRules& rules) {
  if (rules.write()) wrote();
  for (const WorkflowId id : rules.take_changed()) after_.changed_workflows.push_back(id);
  for (std::string& alarm : rules.take_alarms()) after_.alarms.push_back(std::move(alarm));
}

// For a job that this node gave out.
bool PostgresStore::ends_step(const Operation& operation) const {
  const auto* finish = std::get_if<Finish>(&operation);
  return finish != nullptr &&
         std::any_of(finish->results.begin(), finish->results.end(), [this](const auto& result) {
           const auto lease = own_leases_.find(result.id);
           return lease != own_leases_.end() && (lease->second.flags & kFlagStep) != 0;
         });
}

// The jobs that the batch names are locked in this round trip, or earlier. A single operation locks
// its own workflow, unless it is already locked.
void PostgresStore::lock_workflows(std::span<const Operation> batch) {
  std::vector<WorkflowId> ids;
  std::vector<JobId> jobs, cancelled;
  const auto is_step = [this](JobId id) {
    const auto lease = own_leases_.find(id);
    if (lease != own_leases_.end()) return (lease->second.flags & kFlagStep) != 0;
    settle();
    const LoadedJob* held = loaded(id);
    return held != nullptr && (held->row.flags & kFlagStep) != 0;
  };
  int operations = 0, starts = 0;
  bool locked = false;
  for (const Operation& operation : batch) {
    starts += std::holds_alternative<StartWorkflow>(operation) ? 1 : 0;
    // A failing step locks the jobs beside it first: see lock_live_of_failed().
    locked = locked || (ends_step(operation) && all_complete(std::get<Finish>(operation)));
    const std::size_t before = ids.size() + jobs.size();
    if (const WorkflowId id = workflow_named(operation)) ids.push_back(id);
    if (const auto* finish = std::get_if<Finish>(&operation)) {
      for (const JobOutcome& result : finish->results) {
        if (is_step(result.id)) jobs.push_back(result.id);
      }
    } else if (const auto* cancel = std::get_if<Cancel>(&operation)) {
      if (is_step(cancel->id)) jobs.push_back(cancel->id);
    } else if (const auto* whole = std::get_if<CancelWorkflow>(&operation)) {
      cancelled.push_back(whole->id);
    }
    operations += ids.size() + jobs.size() > before ? 1 : 0;
  }
  if (!cancelled.empty()) jobs_by_id(ids_of(ask(workflow_sql_.live_of, params(cancelled))));
  // It locks jobs before their workflows.
  const bool wakes = std::any_of(batch.begin(), batch.end(), [](const Operation& operation) {
    return std::holds_alternative<WakeWorkflows>(operation);
  });
  if (operations < 2 || wakes) ids.clear();
  if ((operations < 2 && !locked) || wakes) jobs.clear();
  workflows_.look_ahead(ids, jobs, starts);
}

// -- operations -----------------------------------------------------------------------------------

template <class F>
OperationResult PostgresStore::run_workflow(F&& what) {
  WorkflowRules rules(workflows_, now_.wall, nullptr, &workflows_.starts());
  auto done = what(rules);
  if (!done) {
    if (done.error().code == ErrorCode::internal) throw damaged_workflow(done.error());
    return done.error();
  }
  write_workflows(rules);
  if constexpr (std::is_same_v<decltype(done), Result<void>>) {
    return Done{};
  } else {
    return std::move(*done);
  }
}

OperationResult PostgresStore::operator()(const StartWorkflow& op) {
  if (!has_room(static_cast<std::int64_t>(workflow::steps_in_all(op.spec)))) return too_many();
  return run_workflow([&](WorkflowRules& rules) { return rules.start(op); });
}
OperationResult PostgresStore::operator()(const SignalWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.signal(op); });
}
OperationResult PostgresStore::operator()(const CancelWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.cancel(op); });
}
OperationResult PostgresStore::operator()(const PauseWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.pause(op); });
}
OperationResult PostgresStore::operator()(const RetryWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.retry(op); });
}

OperationResult PostgresStore::operator()(const ForkWorkflow& op) {
  const auto old = workflows_.load(op.id);
  if (!has_room(old ? workflow::info_of(*old).steps : 0)) return too_many();
  return run_workflow([&](WorkflowRules& rules) { return rules.fork(op); });
}

OperationResult PostgresStore::operator()(const WakeWorkflows& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  workflows_.flush();
  after_.look_workflow = true;
  const std::vector<WorkflowId> due =
      ids_of(ask(workflow_sql_.due, params(wall(), std::int64_t{op.limit})));
  StepResult result{.more = std::ssize(due) == op.limit};
  if (due.empty()) return result;
  jobs_by_id(ids_of(ask(workflow_sql_.live_of_due, params(Ints(due), wall()))));
  workflows_.lock(due, {});
  WorkflowRules rules(workflows_, now_.wall, nullptr, &workflows_.starts());
  for (const WorkflowId id : due) {
    const auto record = workflows_.load(id);
    if (!record || record->wake_at > now_.wall) continue;  // another node was first
    const auto more = rules.wake(id);
    if (!more) throw damaged_workflow(more.error());
    ++result.changed;
    result.more = result.more || *more;
  }
  write_workflows(rules);
  return result;
}

// -- retention ------------------------------------------------------------------------------------

Params PostgresStore::retentions() const {
  const std::int64_t well = std::min(options_.store.retention_completed, kLongestRetention).count();
  const std::int64_t else_ = std::min(options_.store.retention_dead, kLongestRetention).count();
  Ints states, keep;
  for (int state = 0; state < kWorkflowStateCount; ++state) {
    if (!is_terminal(static_cast<WorkflowState>(state))) continue;
    states.push_back(state);
    keep.push_back(static_cast<WorkflowState>(state) == WorkflowState::completed ? well : else_);
  }
  return params(states, keep);
}

bool PostgresStore::prune_workflows(int limit) {
  workflows_.flush();
  for (;;) {
    Params which = retentions();
    which.add(wall()).add(std::int64_t{limit});
    const std::vector<WorkflowId> over = ids_of(ask(workflow_sql_.finished, which));
    if (over.empty()) return false;
    const bool children =
        ask(workflow_sql_.let_children_go, params(Ints(over), kGoesWithParent.us())).affected() > 0;
    const std::int64_t rows =
        ask(workflow_sql_.prune_rows, params(Ints(over), std::int64_t{limit})).affected();
    workflows_.clear();
    workflows_.lock(over, {});
    Ints gone;
    for (const WorkflowId id : over) {
      const auto record = workflows_.load(id);
      const bool well = record && record->state == WorkflowState::completed;
      const Duration keep =
          std::min(well ? options_.store.retention_completed : options_.store.retention_dead,
                   kLongestRetention);
      const auto key = record ? workflow::left_of(*record, keep, now_.wall) : std::nullopt;
      if (!key) gone.push_back(id);
      if (key && rows < limit) workflows_.save(*key, false);
    }
    workflows_.flush();
    if (!gone.empty()) write(workflow_sql_.prune, params(gone));
    // Later operations of the batch read them again.
    workflows_.clear();
    if (rows >= limit || std::ssize(over) >= limit) return true;
    if (!children) return false;
  }
}

}  // namespace mainspring::pg
