// The rules of workflows: what a transaction has in hand of them.
#include <fmt/format.h>

#include <set>

#include "api/workflow_shapes.h"
#include "base/mutant.h"
#include "workflow/rules.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;

namespace {

Error no_workflow(WorkflowId id) {
  return Error{ErrorCode::not_found, fmt::format("there is no workflow {}", id)};
}
Error damaged(WorkflowId id, std::string_view what) {
  return Error{ErrorCode::internal, fmt::format("the store is damaged: workflow {}: {}", id, what)};
}

std::string queues_of(const WorkflowSpec& spec) {
  std::set<std::string> queues;
  (void)for_each_step(spec, [&](const std::string&, const StepSpec& step) -> Result<void> {
    if (step.job) queues.insert(step.job->queue);
    if (step.undo) queues.insert(step.undo->queue);
    return {};
  });
  std::string out;
  for (const std::string& queue : queues) out += queue + "\n";
  return out;
}

}  // namespace

namespace workflow {

bool may_touch(std::string_view queues, const Within& within) {
  while (!queues.empty()) {
    const auto end = queues.find('\n');
    if (!within.has(queues.substr(0, end))) return false;
    queues = end == std::string_view::npos ? std::string_view() : queues.substr(end + 1);
  }
  return true;
}

}  // namespace workflow

Result<WorkflowRules::Open*> WorkflowRules::open(WorkflowId id) {
  const auto found = open_.find(id);
  if (found != open_.end()) return &found->second;
  auto record = rows_.load(id);
  if (!record) return nullptr;
  auto summary = workflow::decode_summary(record->data);
  if (!summary) return damaged(id, summary.error().message);
  Open& w = open_[id];
  w.before = record->state;
  w.record = std::move(*record);
  w.summary = std::move(*summary);
  return &w;
}

Result<WorkflowRules::Open*> WorkflowRules::open_within(WorkflowId id, const Within& within) {
  MS_TRY_ASSIGN(Open * w, open(id));
  if (w == nullptr) return no_workflow(id);
  if (within.scopes == nullptr) return w;
  const auto queues = rows_.row(id, WorkflowRow::text, workflow::kTextQueues);
  if (queues && !workflow::may_touch(*queues, within)) return no_workflow(id);
  return w;
}

Result<StepStatus*> WorkflowRules::status(Open& w, int step) {
  Step& kept = w.steps[step];
  if (kept.known) return &kept.status;
  const auto text = rows_.row(w.record.id, WorkflowRow::state, step);
  if (!text) return damaged(w.record.id, fmt::format("step {} is not there", step));
  auto status = workflow::decode_status(*text);
  if (!status) return damaged(w.record.id, status.error().message);
  kept = {.status = std::move(*status), .known = true, .was = *text};
  return &kept.status;
}

Result<std::shared_ptr<const StepDefinition>> WorkflowRules::definition(Open& w, int step) {
  MS_TRY_ASSIGN(const StepStatus* status, this->status(w, step));
  const int number = status->of != 0 ? status->of : step;
  auto& kept = w.definitions[number];
  if (kept) return kept;
  const auto text = rows_.row(w.record.id, WorkflowRow::spec, number);
  if (!text)
    return damaged(w.record.id, fmt::format("the definition of step {} is not there", number));
  auto definition = workflow::decode_definition(*text);
  if (!definition) return damaged(w.record.id, definition.error().message);
  kept = std::make_shared<const StepDefinition>(std::move(*definition));
  return kept;
}

WorkflowInfo WorkflowRules::info(Open& w) const {
  WorkflowRecord record = w.record;
  record.data = workflow::encode(w.summary);
  return workflow::info_of(record);
}

Result<WorkflowStarted> WorkflowRules::start(const WorkflowSpec& spec) {
  if (!spec.key.empty() && !MS_MUTANT(workflow_key_ignored)) {
    if (const auto id = rows_.by_key(spec.name, spec.key))
      return WorkflowStarted{.id = *id, .duplicate = true};
  }
  MS_TRY_ASSIGN(Open * w, make(spec, nullptr, 0));
  const WorkflowId id = w->record.id;
  MS_TRY(begin_ready(*w));
  MS_TRY(go_on_undoing(*w));
  MS_TRY(settle());
  return WorkflowStarted{.id = id};
}

Result<WorkflowRules::Open*> WorkflowRules::make(const WorkflowSpec& spec, const Open* parent,
                                                 int step_of_parent) {
  MS_TRY_ASSIGN(auto plan, workflow::plan(spec));
  const WorkflowId id = rows_.new_workflow();
  Open& w = open_[id];
  w.fresh = w.changed = true;
  w.record = {.id = id, .name = spec.name, .key = spec.key};
  w.summary.started_at = now_;
  w.summary.undo_order = spec.undo_order;
  w.summary.steps = w.summary.open = static_cast<int>(spec.steps.size());
  w.summary.refs = workflow::result_refs(spec);
  if (parent != nullptr) {
    w.summary.parent.workflow = parent->record.id;
    w.summary.parent_step = step_of_parent;
  }
  rows_.save(w.record);  // the rows below it refer to it
  rows_.put(id, WorkflowRow::text, workflow::kTextInput, spec.input);
  rows_.put(id, WorkflowRow::text, workflow::kTextQueues, queues_of(spec));
  if (!spec.result.empty())
    rows_.put(id, WorkflowRow::text, workflow::kTextResultAsked, spec.result);
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    const int step = static_cast<int>(i) + 1;
    auto kept = std::make_shared<StepDefinition>(StepDefinition{spec.steps[i], std::move(plan[i])});
    rows_.put(id, WorkflowRow::spec, step, workflow::encode(*kept));
    const int parents = static_cast<int>(kept->plan.parents.size());
    w.steps[step] = {.status = {.pending = parents}, .known = true};
    if (parents == 0) w.ready.push_back(step);
    w.definitions[step] = std::move(kept);
  }
  if (spec.deadline) {
    w.summary.deadline_at = now_ + *spec.deadline;
    wake_at(w, 0, w.summary.deadline_at);
  }
  return &w;
}

bool WorkflowRules::write() {
  bool wrote = false;
  for (auto& [id, w] : open_) {
    for (auto& [step, kept] : w.steps) {
      std::string text = workflow::encode(kept.status);
      if (text == kept.was) continue;
      w.changed = true;
      rows_.put(id, WorkflowRow::state, step, std::move(text));
    }
    write_wakes(w);
    if (!w.changed) continue;
    if (!w.fresh) ++w.summary.version;
    w.record.data = workflow::encode(w.summary);
    rows_.save(w.record);
    if (w.record.state != w.before || (w.fresh && w.record.state != WorkflowState::running))
      changed_.push_back(id);
    wrote = true;
  }
  open_.clear();
  return wrote;
}

}  // namespace mainspring
