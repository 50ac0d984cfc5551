// Workflow rules: the workflows that a transaction has loaded.
#include <fmt/format.h>

#include <algorithm>

#include "api/workflow_shapes.h"
#include "base/mutant.h"
#include "workflow/rules.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;

namespace {

// Estimated memory of a workflow besides the text of its rows.
constexpr std::size_t kBytesOfWorkflow = 1024;
constexpr std::size_t kBytesOfStep = 512;

Error no_workflow(WorkflowId id) {
  return Error{ErrorCode::not_found, fmt::format("there is no workflow {}", id)};
}
Error damaged(WorkflowId id, std::string_view what) {
  return Error{ErrorCode::internal, fmt::format("the store is damaged: workflow {}: {}", id, what)};
}

}  // namespace

namespace workflow {

std::shared_ptr<Start> make_start(StartText text) {
  auto start = std::make_shared<Start>();
  start->steps = static_cast<int>(text.specs.size());
  start->bytes = kBytesOfWorkflow + text.input.size() + text.asked.size();
  for (const std::string& spec : text.specs) start->bytes += kBytesOfStep + 2 * spec.size();
  start->text = std::move(text);
  return start;
}

Result<std::shared_ptr<const StepDefinition>> definition_of(Start& start, int number) {
  auto& kept = start.definitions[number];
  if (kept) return kept;
  const auto& specs = start.text.specs;
  if (number < 1 || number > std::ssize(specs)) {
    return Error{ErrorCode::internal, fmt::format("the definition of step {} is missing", number)};
  }
  MS_TRY_ASSIGN(auto definition, decode_definition(specs[static_cast<std::size_t>(number) - 1]));
  kept = std::make_shared<const StepDefinition>(std::move(definition));
  return kept;
}

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
  if (found != open_.end()) return found->second.get();
  if (auto kept = kept_ == nullptr ? nullptr : kept_->take(id))
    return (open_[id] = std::move(kept)).get();
  auto record = rows_.load(id);
  if (!record || workflow::is_removed(record->data)) return nullptr;
  auto summary = workflow::decode_summary(record->data);
  if (!summary) return damaged(id, summary.error().message);
  auto w = std::make_unique<Open>();
  w->bytes = kBytesOfWorkflow + 2 * record->data.size();
  w->before = record->state;
  w->record = std::move(*record);
  w->summary = std::move(*summary);
  if (starts_ != nullptr && w->summary.packed())
    w->start = starts_->find(id, w->summary.started_at);
  return (open_[id] = std::move(w)).get();
}

WorkflowRules::Open& WorkflowRules::open_new(WorkflowId id) {
  auto& w = open_[id] = std::make_unique<Open>();
  w->fresh = w->changed = true;
  w->bytes = kBytesOfWorkflow;
  return *w;
}

Result<WorkflowRules::Open*> WorkflowRules::open_within(WorkflowId id, const Within& within) {
  MS_TRY_ASSIGN(Open * w, open(id));
  if (w == nullptr) return no_workflow(id);
  if (within.scopes == nullptr) return w;
  const auto queues = start_text(*w, workflow::kTextQueues);
  if (queues && !workflow::may_touch(*queues, within)) return no_workflow(id);
  return w;
}

Result<StepStatus*> WorkflowRules::status(Open& w, int step) {
  if (w.is_packed(step)) {
    w.states_touched = true;
    return &w.known_status(step);
  }
  Open::Step& kept = w.touch(step);
  if (kept.known) return &kept.status;
  const auto text = rows_.row(w.record.id, WorkflowRow::state, step);
  if (!text) return damaged(w.record.id, fmt::format("step {} is missing", step));
  auto status = workflow::decode_status(*text);
  if (!status) return damaged(w.record.id, status.error().message);
  kept.status = std::move(*status);
  kept.known = true;
  kept.was = *text;
  w.bytes += kBytesOfStep;
  return &kept.status;
}

Result<std::shared_ptr<const StepDefinition>> WorkflowRules::definition(Open& w, int step) {
  MS_TRY_ASSIGN(const StepStatus* status, this->status(w, step));
  const int number = status->of != 0 ? status->of : step;
  if (w.is_packed(number)) {
    MS_TRY_ASSIGN(workflow::Start * start, start_of(w));
    auto known = workflow::definition_of(*start, number);
    if (!known) return damaged(w.record.id, known.error().message);
    return known;
  }
  auto& kept = w.known_definition(number);
  if (kept) return kept;
  const auto text = rows_.row(w.record.id, WorkflowRow::spec, number);
  if (!text)
    return damaged(w.record.id, fmt::format("the definition of step {} is missing", number));
  auto definition = workflow::decode_definition(*text);
  if (!definition) return damaged(w.record.id, definition.error().message);
  kept = std::make_shared<const StepDefinition>(std::move(*definition));
  w.bytes += kBytesOfStep + text->size();
  return kept;
}

Result<workflow::StartText> WorkflowRules::read_start(Open& w) {
  const auto text = rows_.row(w.record.id, WorkflowRow::text, workflow::kTextStart);
  if (!text) return damaged(w.record.id, "its input is missing");
  auto start = workflow::decode_start(*text);
  if (!start) return damaged(w.record.id, start.error().message);
  return std::move(*start);
}

Result<workflow::Start*> WorkflowRules::start_of(Open& w) {
  if (w.start) return w.start.get();
  MS_TRY_ASSIGN(workflow::StartText text, read_start(w));
  w.start = workflow::make_start(std::move(text));
  w.bytes += w.start->bytes;
  return w.start.get();
}

std::optional<std::string> WorkflowRules::start_text(Open& w, workflow::Text text) {
  if (!w.summary.packed()) return rows_.row(w.record.id, WorkflowRow::text, text);
  if (text == workflow::kTextQueues) return w.summary.queues;
  const auto start = start_of(w);
  if (!start) return std::nullopt;
  const workflow::StartText& all = (*start)->text;
  const std::string& kept = text == workflow::kTextInput ? all.input : all.asked;
  if (!kept.empty()) return kept;
  if (text != workflow::kTextInput || MS_MUTANT(large_input_not_read)) return std::nullopt;
  return rows_.row(w.record.id, WorkflowRow::text, text);
}

void WorkflowRules::write_start(Open& w, workflow::StartText start, std::string queues) {
  const WorkflowId id = w.record.id;
  std::size_t bytes = start.asked.size();
  for (const std::string& spec : start.specs) bytes += spec.size();
  w.bytes += bytes + start.input.size() + kBytesOfStep * start.specs.size();
  const bool packed = start.specs.size() <= workflow::kMaxPackedSteps &&
                      bytes <= workflow::kMaxPackedText && rows_.may_pack();
  if (!packed || start.input.size() > workflow::kMaxPackedInput) {
    rows_.put(id, WorkflowRow::text, workflow::kTextInput, start.input);
    start.input.clear();
  }
  if (packed) {
    w.summary.states.resize(start.specs.size());
    if (!MS_MUTANT(packed_without_queues)) w.summary.queues = std::move(queues);
    rows_.put(id, WorkflowRow::text, workflow::kTextStart, workflow::encode(start));
    w.start = workflow::make_start(std::move(start));
    w.start->text.specs.clear();  // they are loaded in parsed form
    return;
  }
  rows_.put(id, WorkflowRow::text, workflow::kTextQueues, queues);
  if (!w.record.key.empty()) w.summary.queues = std::move(queues);
  if (!start.asked.empty())
    rows_.put(id, WorkflowRow::text, workflow::kTextResultAsked, start.asked);
  for (std::size_t i = 0; i < start.specs.size(); ++i)
    rows_.put(id, WorkflowRow::spec, static_cast<std::int64_t>(i) + 1, start.specs[i]);
}

WorkflowInfo WorkflowRules::info(Open& w) const {
  WorkflowRecord record = w.record;
  record.data = workflow::encode(w.summary);
  return workflow::info_of(record);
}

Result<WorkflowStarted> WorkflowRules::start(const StartWorkflow& op) {
  const WorkflowSpec& spec = op.spec;
  if (!spec.key.empty() && !MS_MUTANT(workflow_key_ignored)) {
    if (const auto id = holder_of(spec.name, spec.key, op.within))
      return WorkflowStarted{.id = *id, .duplicate = true};
  }
  std::shared_ptr<const workflow::Prepared> prepared = op.prepared;
  if (!prepared) {
    MS_TRY_ASSIGN(auto plan, workflow::plan(spec));
    prepared = std::make_shared<const workflow::Prepared>(workflow::prepare(spec, std::move(plan)));
  }
  Open& w = make(spec, *prepared, nullptr, 0);
  const WorkflowId id = w.record.id;
  MS_TRY(begin_ready(w));
  MS_TRY(go_on_undoing(w));
  MS_TRY(settle());
  return WorkflowStarted{.id = id};
}

std::optional<WorkflowId> WorkflowRules::holder_of(const std::string& name, const std::string& key,
                                                   const Within& within) {
  for (const WorkflowRecord& record : rows_.by_key(name, key)) {
    const auto summary = workflow::decode_summary(record.data);
    if (!summary) continue;
    const bool over = is_terminal(record.state) && summary->key_until <= now_;
    const bool theirs = !workflow::may_touch(summary->queues, within);
    if (!over && (!theirs || MS_MUTANT(workflow_keys_shared))) return record.id;
  }
  return std::nullopt;
}

WorkflowRules::Open& WorkflowRules::make(const WorkflowSpec& spec,
                                         const workflow::Prepared& prepared, const Open* parent,
                                         int step_of_parent) {
  const WorkflowId id = rows_.new_workflow();
  Open& w = open_new(id);
  w.record = {.id = id, .name = spec.name, .key = spec.key};
  if (!spec.key.empty()) w.summary.key_for = spec.key_for;
  w.summary.started_at = now_;
  w.summary.undo_order = spec.undo_order;
  w.summary.steps = w.summary.open = static_cast<int>(spec.steps.size());
  w.summary.refs = prepared.refs;
  if (parent != nullptr) {
    w.summary.parent.workflow = parent->record.id;
    w.summary.parent_step = step_of_parent;
  }
  workflow::StartText start{.input = spec.input, .asked = spec.result, .specs = {}};
  for (const auto& [definition, text] : prepared.steps) start.specs.push_back(text);
  write_start(w, std::move(start), prepared.queues);
  int step = 0;
  for (const auto& [definition, text] : prepared.steps) {
    ++step;
    const int parents = static_cast<int>(definition->plan.parents.size());
    add_step(w, step, {.pending = parents});
    if (parents == 0) w.ready.push_back(step);
    w.known_definition(step) = definition;
  }
  if (spec.deadline) {
    w.summary.deadline_at = now_ + *spec.deadline;
    wake_at(w, 0, w.summary.deadline_at);
  }
  return w;
}

bool WorkflowRules::write() {
  bool wrote = false;
  for (auto& [id, w] : std::exchange(open_, {})) {
    write_steps(*w);
    write_wakes(*w);
    if (std::exchange(w->states_touched, false) && !w->changed)
      w->changed = workflow::encode(w->summary) != w->record.data;
    if (w->changed) {
      if (!w->fresh) ++w->summary.version;
      w->record.data = workflow::encode(w->summary);
      rows_.save(w->record, w->fresh);
      if (w->record.state != w->before || (w->fresh && w->record.state != WorkflowState::running))
        changed_.push_back(id);
      wrote = true;
    }
    if (starts_ != nullptr && w->start && is_terminal(w->record.state)) {
      starts_->drop(id);
    } else if (starts_ != nullptr && w->start) {
      starts_->keep(id, w->summary.started_at, w->start);
    }
    if (kept_ != nullptr) kept_->keep(std::move(w));
  }
  return wrote;
}

void WorkflowRules::write_steps(Open& w) {
  std::sort(w.touched.begin(), w.touched.end());
  for (const int step : std::exchange(w.touched, {})) {
    Open::Step& kept = w.steps.at(step);
    kept.touched = false;
    std::string text = workflow::encode(kept.status);
    if (text == kept.was) continue;
    w.changed = true;
    rows_.put(w.record.id, WorkflowRow::state, step, text);
    kept.was = std::move(text);
  }
}

void WorkflowRules::add_step(Open& w, int step, StepStatus status) {
  if (w.is_packed(step)) {
    w.known_status(step) = std::move(status);
    return;
  }
  Open::Step& made = w.touch(step);
  made.status = std::move(status);
  made.known = true;
  made.was.clear();
  w.bytes += kBytesOfStep;
}

// -- kept workflows -------------------------------------------------------------------------------

namespace workflow {

std::unique_ptr<OpenWorkflow> KeptWorkflows::take(WorkflowId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  std::unique_ptr<OpenWorkflow> w = std::move(*found->second);
  bytes_ -= w->bytes;
  order_.erase(found->second);
  by_id_.erase(found);
  return w;
}

void KeptWorkflows::keep(std::unique_ptr<OpenWorkflow> workflow) {
  OpenWorkflow& w = *workflow;
  const bool settled = w.ready.empty() && w.wakes.empty() && w.touched.empty() && !w.states_touched;
  if (is_terminal(w.record.state) || w.bytes > kMaxBytesOfOne || !settled) return;
  w.before = w.record.state;
  w.changed = w.fresh = false;
  bytes_ += w.bytes;
  order_.push_front(std::move(workflow));
  by_id_[order_.front()->record.id] = order_.begin();
  while (bytes_ > kMaxBytes) (void)take(order_.back()->record.id);
}

void KeptWorkflows::forget() {
  order_.clear();
  by_id_.clear();
  bytes_ = 0;
}

// -- start data

Start* KeptStarts::peek(WorkflowId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second->start.get();
}

std::shared_ptr<Start> KeptStarts::find(WorkflowId id, WallTime started_at) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  if (found->second->started_at != started_at && !MS_MUTANT(start_of_another)) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return found->second->start;
}

void KeptStarts::keep(WorkflowId id, WallTime started_at, std::shared_ptr<Start> start) {
  const auto found = by_id_.find(id);
  const bool known = found != by_id_.end() && found->second->start == start;
  if (known) return;
  drop(id);
  const std::size_t bytes = start->bytes;
  order_.push_front({id, started_at, std::move(start), bytes});
  by_id_[id] = order_.begin();
  bytes_ += bytes;
  while (bytes_ > kMaxBytes) drop(order_.back().id);
}

void KeptStarts::drop(WorkflowId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  bytes_ -= found->second->bytes;
  order_.erase(found->second);
  by_id_.erase(found);
}

void KeptStarts::forget() {
  order_.clear();
  by_id_.clear();
  bytes_ = 0;
}

}  // namespace workflow

}  // namespace mainspring
