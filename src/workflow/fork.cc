// Workflow rules: a fork copies an ended workflow and starts it again from a step.
//
//   a ─▶ b ─▶ c ─▶ e      forked from c: a and b are copied as they ended, c and e start again;
//    └──▶ d               d does not follow c and is copied if it ended well
//
// Steps that did not end well start again too, and so do all steps after them, because their args
// depend on the earlier results.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "workflow/rules.h"

namespace mainspring {
namespace {

using workflow::StepDefinition;
using workflow::StepStatus;

constexpr int kFirstResults = 64;  // read first; then twice as many, and so on

std::size_t at(int step) {
  return static_cast<std::size_t>(step) - 1;
}

// What the fork needs of the original workflow. Steps of the definition come first.
struct Source {
  WorkflowState state = WorkflowState::completed;
  std::vector<std::string> texts;  // of definitions
  std::vector<std::shared_ptr<const StepDefinition>> definitions;
  std::vector<StepStatus> steps;                // jobs of `each` come after the definition's steps
  std::map<std::int64_t, std::string> results;  // by step

  std::size_t size() const { return definitions.size(); }
};

Error damaged_fork(WorkflowId id, std::string_view what) {
  return Error{ErrorCode::internal, fmt::format("the store is damaged: workflow {}: {}", id, what)};
}

// `texts`: the definitions of a packed workflow.
Result<Source> read_source(WorkflowRows& rows, const workflow::OpenWorkflow& old,
                           std::vector<std::string> texts) {
  constexpr auto kUp = WorkflowRows::Order::up;
  const WorkflowId id = old.record.id;
  Source out;
  out.state = old.record.state;
  out.steps = old.summary.states;
  out.texts = std::move(texts);
  for (auto& [number, text] : rows.rows(id, WorkflowRow::spec, kUp, INT32_MAX)) {
    if (number != std::ssize(out.texts) + 1) return damaged_fork(id, "a definition is missing");
    out.texts.push_back(std::move(text));
  }
  for (const std::string& text : out.texts) {
    auto definition = workflow::decode_definition(text);
    if (!definition) return damaged_fork(id, definition.error().message);
    out.definitions.push_back(std::make_shared<const StepDefinition>(std::move(*definition)));
  }
  for (const auto& [number, text] : rows.rows(id, WorkflowRow::state, kUp, INT32_MAX)) {
    auto status = workflow::decode_status(text);
    if (!status || number != std::ssize(out.steps) + 1)
      return damaged_fork(id, status ? "a step is missing" : status.error().message);
    out.steps.push_back(std::move(*status));
  }
  if (out.steps.size() < out.size()) return damaged_fork(id, "a step is missing");
  for (int limit = kFirstResults;; limit *= 2) {
    auto found = rows.rows(id, WorkflowRow::result, kUp, limit);
    std::size_t bytes = 0;
    for (const auto& [number, text] : found) bytes += text.size();
    if (bytes > kMaxForkedBytes) {
      return Error{
          ErrorCode::too_large,
          fmt::format(
              "the results of workflow {} are over {} bytes together: too many to be copied", id,
              kMaxForkedBytes)};
    }
    if (std::ssize(found) == limit && limit < INT32_MAX / 2) continue;
    for (auto& [number, text] : found) out.results.emplace(number, std::move(text));
    return out;
  }
}

// Whether the workflow continued after the failure of this step: the steps after it started, so it
// did not fail because the whole workflow ended.
bool continued(const Source& of, int step) {
  const StepDefinition& definition = *of.definitions[at(step)];
  if (definition.spec.on_failure != OnStepFailure::go_on) return false;
  const std::vector<int>& children = definition.plan.children;
  return of.state == WorkflowState::completed ||
         std::any_of(children.begin(), children.end(),
                     [&](int child) { return of.steps[at(child)].state != StepState::waiting; });
}

bool ended_well(const Source& of, int step) {
  const StepStatus& status = of.steps[at(step)];
  if (status.state == StepState::skipped) return true;
  if (status.state == StepState::failed) return continued(of, step);
  if (MS_MUTANT(fork_takes_what_was_undone) && status.state == StepState::undone) return true;
  if (status.state != StepState::completed) return false;
  // For `each`: the step is completed, but some of its jobs may have been undone.
  for (int i = 0; i < status.count; ++i) {
    const StepState one = of.steps[at(status.first + i)].state;
    if (one != StepState::completed && one != StepState::failed) return false;
  }
  return true;
}

enum class Way { down, up };  // to the steps after it, to the steps before it

// Marks all steps that can be reached from the marked steps.
void spread(const Source& of, Way way, std::vector<bool>& marked) {
  std::vector<int> next;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i]) next.push_back(static_cast<int>(i) + 1);
  }
  while (!next.empty()) {
    const workflow::PlannedStep& plan = of.definitions[at(next.back())]->plan;
    next.pop_back();
    for (const int other : way == Way::down ? plan.children : plan.parents) {
      if (marked[at(other)]) continue;
      marked[at(other)] = true;
      next.push_back(other);
    }
  }
}

// The steps that start again. Errors: conflict (a step before `step` is one of them).
Result<std::vector<bool>> to_begin(const Source& of, WorkflowId id, int step) {
  std::vector<bool> bad(of.size()), after_bad(of.size()), before(of.size());
  for (std::size_t i = 0; i < of.size(); ++i) {
    bad[i] = !ended_well(of, static_cast<int>(i) + 1);
    if (!bad[i]) continue;
    for (const int child : of.definitions[i]->plan.children) after_bad[at(child)] = true;
  }
  spread(of, Way::down, after_bad);
  before[at(step)] = true;
  spread(of, Way::up, before);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (i == at(step) || !before[i] || !bad[i] || after_bad[i]) continue;
    const std::string& name = of.definitions[i]->spec.name;
    const StepState state = of.steps[i].state;
    const bool ended = state != StepState::waiting && state != StepState::running;
    return Error{
        ErrorCode::conflict,
        fmt::format("step \"{}\" of workflow {} waits for \"{}\", which {}: fork from \"{}\" "
                    "instead",
                    of.definitions[at(step)]->spec.name, id, name,
                    ended ? fmt::format("is {}", to_string(state)) : "had not ended", name),
        "step"};
  }
  std::vector<bool> restarted = after_bad;
  for (std::size_t i = 0; i < of.size(); ++i) {
    restarted[i] = restarted[i] || bad[i] || i == at(step);
  }
  if (!MS_MUTANT(fork_begins_only_its_step)) spread(of, Way::down, restarted);
  return restarted;
}

// The copied state: the fork neither undoes the step nor waits for its end.
StepStatus taken(const StepStatus& old) {
  StepStatus out = old;
  out.pending = 0;
  out.seq = 0;
  out.taken_over = true;
  return out;
}

// The initial state of a step that starts again.
StepStatus restarted_status(const Source& of, int step, const std::vector<bool>& restarted) {
  StepStatus out;
  for (const int parent : of.definitions[at(step)]->plan.parents) {
    const bool skipped = of.steps[at(parent)].state == StepState::skipped;
    if (restarted[at(parent)])
      ++out.pending;
    else if (!skipped || MS_MUTANT(fork_counts_skipped_as_come))
      ++out.came;
  }
  return out;
}

void count(workflow::Summary& summary, const StepStatus& status) {
  if (status.state == StepState::completed) ++summary.completed;
  if (status.state == StepState::failed) ++summary.failed;
  if (status.state == StepState::skipped) ++summary.skipped;
}

}  // namespace

void WorkflowRules::take_over(Open& w, int step, const StepStatus& old,
                              const std::map<std::int64_t, std::string>& results, int was) {
  add_step(w, step, taken(old));
  count(w.summary, old);
  const auto result = results.find(was);
  if (result != results.end()) rows_.put(w.record.id, WorkflowRow::result, step, result->second);
  if (MS_MUTANT(fork_undoes_what_it_took) && w.known_definition(step) &&
      w.known_definition(step)->spec.undo) {
    w.known_status(step).seq = ++w.summary.seq;
    rows_.put(w.record.id, WorkflowRow::undo, w.summary.seq, std::to_string(step));
  }
}

Result<WorkflowStarted> WorkflowRules::fork(const ForkWorkflow& op) {
  MS_TRY_ASSIGN(Open * old, open_within(op.id, op.within));
  // The input is the first row that is removed after the retention.
  const auto input = start_text(*old, workflow::kTextInput);
  if (!input)
    return Error{ErrorCode::expired, fmt::format("the retention of workflow {} has ended", op.id)};
  const std::string queues = start_text(*old, workflow::kTextQueues).value_or("");
  if (!workflow::may_touch(queues, {op.within.scopes, Verb::enqueue})) {
    return Error{ErrorCode::forbidden,
                 fmt::format("to fork workflow {} needs \"enqueue\" for all its queues", op.id)};
  }
  if (!op.key.empty()) {
    if (const auto id = holder_of(old->record.name, op.key, {op.within.scopes, Verb::enqueue}))
      return WorkflowStarted{.id = *id, .duplicate = true};
  }
  if (!is_terminal(old->record.state) && !MS_MUTANT(fork_of_one_that_runs)) {
    return Error{ErrorCode::conflict,
                 fmt::format("workflow {} is {}: it can be forked after it has ended", op.id,
                             to_string(old->record.state))};
  }
  MS_TRY(check_parents_ended(*old));
  workflow::StartText start;
  if (old->summary.packed()) {
    MS_TRY_ASSIGN(start, read_start(*old));  // includes all definitions
  }
  MS_TRY_ASSIGN(Source source, read_source(rows_, *old, std::move(start.specs)));
  const auto named =
      std::find_if(source.definitions.begin(), source.definitions.end(),
                   [&](const auto& definition) { return definition->spec.name == op.step; });
  if (named == source.definitions.end()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("step \"{}\": workflow {} has none of this name", op.step, op.id),
                 "step"};
  }
  const int step = static_cast<int>(named - source.definitions.begin()) + 1;
  MS_TRY_ASSIGN(const std::vector<bool> restarted, to_begin(source, op.id, step));

  Open& w = open_fork(*old, op);
  write_start(w,
              {.input = op.input ? *op.input : *input,
               .asked = start_text(*old, workflow::kTextResultAsked).value_or(""),
               .specs = source.texts},
              queues);
  w.summary.steps = static_cast<int>(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    w.known_definition(number) = source.definitions[i];
    if (!restarted[i]) {
      take_over(w, number, source.steps[i], source.results, number);
      StepStatus& group = w.known_status(number);
      group.first = group.count == 0 ? 0 : w.summary.steps + 1;
      w.summary.steps += group.count;
      for (int k = 0; k < group.count; ++k) {
        const int was = source.steps[i].first + k;
        take_over(w, group.first + k, source.steps[at(was)], source.results, was);
      }
      continue;
    }
    ++w.summary.open;
    const StepStatus status = restarted_status(source, number, restarted);
    add_step(w, number, status);
    if (status.pending == 0) w.ready.push_back(number);
  }
  const WorkflowId id = w.record.id;
  MS_TRY(begin_ready(w));
  MS_TRY(go_on_undoing(w));
  MS_TRY(settle());
  return WorkflowStarted{.id = id};
}

// A new workflow that has no steps yet.
WorkflowRules::Open& WorkflowRules::open_fork(const Open& old, const ForkWorkflow& op) {
  const WorkflowId id = rows_.new_workflow();
  Open& w = open_new(id);
  w.record = {.id = id, .name = old.record.name, .key = op.key};
  if (!op.key.empty()) w.summary.key_for = op.key_for;
  w.summary.started_at = now_;
  w.summary.undo_order = old.summary.undo_order;
  w.summary.refs = old.summary.refs;
  w.summary.forked_from = {.id = op.id, .step = op.step};
  if (old.summary.deadline_at != WallTime::never()) {
    w.summary.deadline_at = now_ + (old.summary.deadline_at - old.summary.started_at);
    wake_at(w, 0, w.summary.deadline_at);
  }
  return w;
}

}  // namespace mainspring
