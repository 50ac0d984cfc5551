// The rules of workflows: one that has ended is forked, to be begun anew from a step.
//
//   a ─▶ b ─▶ c ─▶ e      forked from c: a and b are taken over as they ended, c and e begin anew;
//    └──▶ d               d, which is not behind c, is taken over if it ended well
//
// What did not end well begins anew too, and so does whatever is behind it: its args came from
// there.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "workflow/rules.h"

namespace mainspring {
namespace {

using workflow::StepDefinition;
using workflow::StepStatus;

constexpr int kFirstResults = 64;  // are read; then twice as many, and again

std::size_t at(int step) {
  return static_cast<std::size_t>(step) - 1;
}

// The old one, as far as a new one is made of it. Steps of the definition come first.
struct Source {
  WorkflowState state = WorkflowState::completed;
  std::vector<std::string> texts;  // of definitions
  std::vector<std::shared_ptr<const StepDefinition>> definitions;
  std::vector<StepStatus> steps;                // jobs of `each` behind those of the definition
  std::map<std::int64_t, std::string> results;  // by step

  std::size_t size() const { return definitions.size(); }
};

Error damaged_fork(WorkflowId id, std::string_view what) {
  return Error{ErrorCode::internal, fmt::format("the store is damaged: workflow {}: {}", id, what)};
}

// `texts`: the definitions of a packed one.
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
      return Error{ErrorCode::too_large,
                   fmt::format("the results of workflow {} are over {} bytes together: too many to "
                               "be taken over",
                               id, kMaxForkedBytes)};
    }
    if (std::ssize(found) == limit && limit < INT32_MAX / 2) continue;
    for (auto& [number, text] : found) out.results.emplace(number, std::move(text));
    return out;
  }
}

// One that failed, and those behind it were begun all the same: it did not fail when all was over.
bool went_on(const Source& of, int step) {
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
  if (status.state == StepState::failed) return went_on(of, step);
  if (MS_MUTANT(fork_takes_what_was_undone) && status.state == StepState::undone) return true;
  if (status.state != StepState::completed) return false;
  // Of `each`: the step is completed, and some of its jobs may have been undone all the same.
  for (int i = 0; i < status.count; ++i) {
    const StepState one = of.steps[at(status.first + i)].state;
    if (one != StepState::completed && one != StepState::failed) return false;
  }
  return true;
}

enum class Way { down, up };  // to what is behind it, to what is before it

// What can be reached from the steps that are marked; they stay so.
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

// The steps that begin anew. Errors: conflict (one before `step` is among them).
Result<std::vector<bool>> to_begin(const Source& of, WorkflowId id, int step) {
  std::vector<bool> bad(of.size()), behind_bad(of.size()), before(of.size());
  for (std::size_t i = 0; i < of.size(); ++i) {
    bad[i] = !ended_well(of, static_cast<int>(i) + 1);
    if (!bad[i]) continue;
    for (const int child : of.definitions[i]->plan.children) behind_bad[at(child)] = true;
  }
  spread(of, Way::down, behind_bad);
  before[at(step)] = true;
  spread(of, Way::up, before);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (i == at(step) || !before[i] || !bad[i] || behind_bad[i]) continue;
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
  std::vector<bool> anew = behind_bad;
  for (std::size_t i = 0; i < of.size(); ++i) anew[i] = anew[i] || bad[i] || i == at(step);
  if (!MS_MUTANT(fork_begins_only_its_step)) spread(of, Way::down, anew);
  return anew;
}

// As it stands in the new one: nothing of it is to be undone, or to be heard of any more.
StepStatus taken(const StepStatus& old) {
  StepStatus out = old;
  out.pending = 0;
  out.seq = 0;
  out.taken_over = true;
  return out;
}

// One that begins anew.
StepStatus begins_behind(const Source& of, int step, const std::vector<bool>& anew) {
  StepStatus out;
  for (const int parent : of.definitions[at(step)]->plan.parents) {
    const bool skipped = of.steps[at(parent)].state == StepState::skipped;
    if (anew[at(parent)])
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
  // The first of its rows to go when its retention has ended.
  const auto input = start_text(*old, workflow::kTextInput);
  if (!input)
    return Error{ErrorCode::expired, fmt::format("the retention of workflow {} has ended", op.id)};
  const std::string queues = start_text(*old, workflow::kTextQueues).value_or("");
  if (!workflow::may_touch(queues, {op.within.scopes, Verb::enqueue})) {
    return Error{ErrorCode::forbidden,
                 fmt::format("to fork workflow {} needs \"enqueue\" for all its queues", op.id)};
  }
  if (!op.key.empty()) {
    if (const auto id = rows_.by_key(old->record.name, op.key))
      return WorkflowStarted{.id = *id, .duplicate = true};
  }
  if (!is_terminal(old->record.state) && !MS_MUTANT(fork_of_one_that_runs)) {
    return Error{ErrorCode::conflict,
                 fmt::format("workflow {} is {}: it can be forked when it has ended", op.id,
                             to_string(old->record.state))};
  }
  MS_TRY(check_parents_ended(*old));
  workflow::StartText start;
  if (old->summary.packed()) {
    MS_TRY_ASSIGN(start, read_start(*old));  // with all its definitions
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
  MS_TRY_ASSIGN(const std::vector<bool> anew, to_begin(source, op.id, step));

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
    if (!anew[i]) {
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
    const StepStatus status = begins_behind(source, number, anew);
    add_step(w, number, status);
    if (status.pending == 0) w.ready.push_back(number);
  }
  const WorkflowId id = w.record.id;
  MS_TRY(begin_ready(w));
  MS_TRY(go_on_undoing(w));
  MS_TRY(settle());
  return WorkflowStarted{.id = id};
}

// A new one that has no steps yet.
WorkflowRules::Open& WorkflowRules::open_fork(const Open& old, const ForkWorkflow& op) {
  const WorkflowId id = rows_.new_workflow();
  Open& w = open_new(id);
  w.record = {.id = id, .name = old.record.name, .key = op.key};
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
