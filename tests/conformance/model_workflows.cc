// The workflows of the model store.
#include "conformance/model_workflows.h"

#include <algorithm>

#include "base/assert.h"
#include "workflow/reads.h"

namespace mainspring {
namespace {

Error no_workflow() {
  return Error{ErrorCode::not_found, "there is no such workflow"};
}

Duration retention(const WorkflowRecord& record, const StoreOptions& options) {
  return record.state == WorkflowState::completed ? options.retention_completed
                                                  : options.retention_dead;
}

}  // namespace

// -- rows -----------------------------------------------------------------------------------------

std::optional<WorkflowRecord> ModelWorkflows::load(WorkflowId id) {
  const auto found = disk_.workflows.find(id);
  if (found == disk_.workflows.end()) return std::nullopt;
  return found->second;
}

std::vector<WorkflowRecord> ModelWorkflows::by_key(const std::string& name,
                                                   const std::string& key) {
  std::vector<WorkflowRecord> out;
  for (const auto& [id, record] : disk_.workflows) {
    if (record.name == name && record.key == key) out.insert(out.begin(), record);
  }
  return out;
}

void ModelWorkflows::save(const WorkflowRecord& record, bool /*is_new*/) {
  wrote_ = true;
  disk_.workflows[record.id] = record;
}

std::optional<std::string> ModelWorkflows::find(WorkflowId id, WorkflowRow kind,
                                                std::int64_t number) const {
  const auto found = disk_.workflow_rows.find({id, kind, number});
  if (found == disk_.workflow_rows.end()) return std::nullopt;
  return found->second;
}
std::optional<std::string> ModelWorkflows::row(WorkflowId id, WorkflowRow kind,
                                               std::int64_t number) {
  return find(id, kind, number);
}

void ModelWorkflows::put(WorkflowId id, WorkflowRow kind, std::int64_t number,
                         std::string_view text) {
  wrote_ = true;
  disk_.workflow_rows[{id, kind, number}] = std::string(text);
}

void ModelWorkflows::remove(WorkflowId id, WorkflowRow kind, std::int64_t number) {
  disk_.workflow_rows.erase({id, kind, number});
}

std::vector<WorkflowRows::Row> ModelWorkflows::rows(WorkflowId id, WorkflowRow kind, Order order,
                                                    int limit) {
  std::vector<Row> out;
  for (auto it = disk_.workflow_rows.lower_bound({id, kind, INT64_MIN});
       it != disk_.workflow_rows.end() && std::get<0>(it->first) == id &&
       std::get<1>(it->first) == kind;
       ++it)
    out.emplace_back(std::get<2>(it->first), it->second);
  if (order == Order::down) std::reverse(out.begin(), out.end());
  if (std::ssize(out) > limit) out.resize(static_cast<std::size_t>(limit));
  return out;
}

JobId ModelWorkflows::make_job(const NewJob& job, const StepJob& of) {
  wrote_ = true;
  const JobId id = jobs_.make(job);
  disk_.jobs.at(id).step = true;
  disk_.steps[id] = of;
  return id;
}

// -- operations -----------------------------------------------------------------------------------

void ModelWorkflows::ended(const Record& record) {
  const auto of = disk_.steps.find(record.job.id);
  if (of == disk_.steps.end()) return;
  const Job& j = record.job;
  ended_.push_back({.of = of->second,
                    .job = j.id,
                    .state = j.state,
                    .result = j.result,
                    .reason = j.reason,
                    .description = j.description,
                    .unknown = record.unknown});
  disk_.steps.erase(of);
}

bool ModelWorkflows::settle() {
  if (ended_.empty()) return false;
  WorkflowRules rules(*this, now_.wall);
  for (const StepEnd& end : std::exchange(ended_, {})) {
    const auto done = rules.ended(end);
    MS_ASSERT(done.has_value(), "the rows of a model are sound");
  }
  write(rules);
  return true;
}

void ModelWorkflows::write(WorkflowRules& rules) {
  rules.write();
  for (const WorkflowId id : rules.take_changed()) changed_.push_back(id);
  for (std::string& alarm : rules.take_alarms()) alarms_.push_back(std::move(alarm));
}

template <class F>
OperationResult ModelWorkflows::run_rules(F&& what) {
  WorkflowRules rules(*this, now_.wall);
  auto done = what(rules);
  if (!done) return done.error();
  write(rules);
  if constexpr (std::is_same_v<decltype(done), Result<void>>) {
    return Done{};
  } else {
    return std::move(*done);
  }
}

OperationResult ModelWorkflows::run(const StartWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.start(op); });
}
OperationResult ModelWorkflows::run(const SignalWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.signal(op); });
}
OperationResult ModelWorkflows::run(const CancelWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.cancel(op); });
}
OperationResult ModelWorkflows::run(const PauseWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.pause(op); });
}
OperationResult ModelWorkflows::run(const RetryWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.retry(op); });
}

OperationResult ModelWorkflows::run(const ForkWorkflow& op) {
  return run_rules([&](WorkflowRules& rules) { return rules.fork(op); });
}

std::int64_t ModelWorkflows::steps_of(const ForkWorkflow& op) const {
  const auto old = disk_.workflows.find(op.id);
  return old == disk_.workflows.end() ? 0 : workflow::info_of(old->second).steps;
}

OperationResult ModelWorkflows::run(const WakeWorkflows& op) {
  std::vector<std::pair<WallTime, WorkflowId>> due;
  for (const auto& [id, record] : disk_.workflows) {
    if (record.wake_at <= now_.wall) due.emplace_back(record.wake_at, id);
  }
  std::sort(due.begin(), due.end());
  StepResult result;
  WorkflowRules rules(*this, now_.wall);
  for (const auto& [at, id] : due) {
    if (result.changed == op.limit) break;
    ++result.changed;
    const auto more = rules.wake(id);
    MS_ASSERT(more.has_value(), "the rows of a model are sound");
    result.more = result.more || *more;
  }
  write(rules);
  result.more = result.more || result.changed == op.limit;
  return result;
}

void ModelWorkflows::prune(const StoreOptions& options) {
  // Children have higher numbers than their parents: one round removes both.
  for (auto it = disk_.workflows.begin(); it != disk_.workflows.end();) {
    const WorkflowRecord& record = it->second;
    const bool over =
        is_terminal(record.state) && record.finished_at + retention(record, options) <= now_.wall;
    if (over) {
      wrote_ = true;
      for (const auto& [child, step] :
           rows(record.id, WorkflowRow::child, Order::up, static_cast<int>(kMaxStepsInAll))) {
        const auto found = disk_.workflows.find(child);
        if (found != disk_.workflows.end()) found->second.finished_at = kGoesWithParent;
      }
      std::erase_if(disk_.workflow_rows,
                    [&](const auto& row) { return std::get<0>(row.first) == record.id; });
    }
    auto key = over ? workflow::left_of(record, retention(record, options), now_.wall) : record;
    if (key) it->second = std::move(*key);
    it = key ? std::next(it) : disk_.workflows.erase(it);
  }
}

// -- reads ----------------------------------------------------------------------------------------

WallTime ModelWorkflows::next_wake() const {
  WallTime next = WallTime::never();
  for (const auto& [id, record] : disk_.workflows) next = std::min(next, record.wake_at);
  return next;
}

WallTime ModelWorkflows::next_prune(const StoreOptions& options) const {
  WallTime next = WallTime::never();
  for (const auto& [id, record] : disk_.workflows) {
    if (is_terminal(record.state))
      next = std::min(next, record.finished_at + retention(record, options));
  }
  return next;
}

Result<WorkflowInfo> ModelWorkflows::read(WorkflowId id) const {
  const auto found = disk_.workflows.find(id);
  if (found == disk_.workflows.end() || workflow::is_removed(found->second.data))
    return no_workflow();
  return workflow::read_info(
      found->second, [&](WorkflowRow kind, std::int64_t number) { return find(id, kind, number); });
}

WorkflowPage ModelWorkflows::list(const WorkflowFilter& filter, int limit,
                                  WorkflowId before) const {
  std::vector<WorkflowRecord> records;
  for (auto it = disk_.workflows.rbegin(); it != disk_.workflows.rend(); ++it) {
    if (std::ssize(records) == limit * workflow::kExaminedForOne) break;
    if (before == 0 || it->first < before) records.push_back(it->second);
  }
  return workflow::page_of(filter, limit, records, [&](WorkflowId id) {
    return find(id, WorkflowRow::text, workflow::kTextQueues);
  });
}

Result<WorkflowStepPage> ModelWorkflows::steps(WorkflowId id, int after, int limit) const {
  const auto found = disk_.workflows.find(id);
  if (found == disk_.workflows.end() || workflow::is_removed(found->second.data))
    return no_workflow();
  std::vector<WorkflowRows::Row> states;
  for (const auto& [at, text] : disk_.workflow_rows) {
    const auto& [workflow, kind, number] = at;
    if (workflow == id && kind == WorkflowRow::state && number > after &&
        std::ssize(states) <= limit)
      states.emplace_back(number, text);
  }
  auto page = workflow::read_steps(
      found->second, states, after, limit,
      [&](WorkflowRow kind, std::int64_t number) { return find(id, kind, number); });
  std::map<JobId, Job> jobs;
  for (const JobId job : page ? workflow::live_jobs(*page) : std::vector<JobId>()) {
    if (const auto one = disk_.jobs.find(job); one != disk_.jobs.end())
      jobs.emplace(job, one->second.job);
  }
  if (page) workflow::add_jobs(*page, jobs);
  return page;
}

}  // namespace mainspring
