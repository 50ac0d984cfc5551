// Workflow rules: steps start, end, and start others.
#include "workflow/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/step_key.h"
#include "base/mutant.h"
#include "workflow/references.h"

namespace mainspring {

using workflow::StepDefinition;
using workflow::StepStatus;
using workflow::Summary;

namespace {

constexpr std::size_t kMaxReasonBytes = 1 << 10;
// Results of steps up to this are not counted: too few of them fit into one workflow.
constexpr std::size_t kSmallResult = 64;

std::string cut(std::string_view text) {
  return std::string(cut_text(text, kMaxReasonBytes));
}

}  // namespace

// -- steps start ----------------------------------------------------------------------------------

// "dead: max_attempts: no paper"
std::string WorkflowRules::reason_of(const StepEnd& end) {
  std::string reason(to_string(end.state));
  if (!end.reason.empty()) reason += ": " + end.reason;
  if (!end.description.empty() && end.description != end.reason) reason += ": " + end.description;
  return cut(reason);
}

Result<void> WorkflowRules::begin_ready(Open& w) {
  while (!w.ready.empty()) {
    const int step = w.ready.front();
    w.ready.pop_front();
    if (!forward(w)) continue;
    const bool parked = w.record.state == WorkflowState::parked && !MS_MUTANT(parked_steps_begin);
    if (parked || (w.summary.paused && !MS_MUTANT(paused_steps_begin))) {
      rows_.put(w.record.id, WorkflowRow::held, step, "");
      continue;
    }
    MS_TRY(begin(w, step));
  }
  if (w.record.state == WorkflowState::running && w.summary.open == 0) MS_TRY(complete_workflow(w));
  return {};
}

Result<void> WorkflowRules::release_held(Open& w) {
  const WorkflowId id = w.record.id;
  for (const auto& [step, nothing] :
       rows_.rows(id, WorkflowRow::held, WorkflowRows::Order::up, INT32_MAX)) {
    rows_.remove(id, WorkflowRow::held, step);
    w.ready.push_back(static_cast<int>(step));
  }
  return begin_ready(w);
}

Result<bool> WorkflowRules::holds(Open& w, int step, const StepDefinition& definition) {
  const StepCondition& condition = *definition.spec.only_if;
  MS_TRY_ASSIGN(const StepStatus* of, status(w, step));
  const auto found = workflow::value_of(condition.ref, [&](std::string_view name) {
    return value(w, definition.plan.refs, of, name);
  });
  const bool is =
      found && (condition.equals.empty() ? workflow::is_something(*found)
                                         : workflow::same_value(*found, condition.equals));
  return is != condition.negate;
}

Result<void> WorkflowRules::begin(Open& w, int step) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  const bool part = status->of != 0;  // a job of `each` that is retried
  if (!part && !definition->plan.parents.empty() && status->came == 0)
    return skip(w, step, "every step before it was skipped");
  if (!part && definition->spec.only_if) {
    MS_TRY_ASSIGN(const bool holds, this->holds(w, step, *definition));
    if (!holds) return skip(w, step, "its condition does not hold");
  }
  status->state = StepState::running;
  status->started_at = now_.us();
  ++w.summary.running;
  if (!part) return begin_kind(w, step, *definition);
  if (definition->spec.deadline) wake_at(w, step, now_ + *definition->spec.deadline);
  return begin_part(w, step, *definition);
}

Result<void> WorkflowRules::begin_kind(Open& w, int step, const StepDefinition& definition) {
  const StepSpec& spec = definition.spec;
  if (!spec.each.empty()) return begin_each(w, step, definition);
  if (spec.sleep) {
    wake_at(w, step, now_ + *spec.sleep);
    return {};
  }
  if (spec.deadline) wake_at(w, step, now_ + *spec.deadline);
  if (!spec.signal.empty()) return listen(w, step, spec.signal);
  return begin_part(w, step, definition);
}

Result<void> WorkflowRules::begin_part(Open& w, int step, const StepDefinition& definition) {
  return definition.spec.workflow ? begin_child(w, step, definition)
                                  : begin_job(w, step, definition);
}

Result<void> WorkflowRules::begin_job(Open& w, int step, const StepDefinition& definition) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  NewJob job = *definition.spec.job;
  auto args = workflow::resolve(
      job.args, [&](std::string_view name) { return value(w, definition.plan.refs, status, name); },
      workflow::Missing::refuse, kMaxArgsBytes);
  if (!args) return fail_to_resolve(w, step, "args", args.error());
  job.args = std::move(*args);
  if (job.correlation_id.empty()) job.correlation_id = fmt::format("workflow-{}", w.record.id);
  const int keyed = MS_MUTANT(steps_share_key) ? 0 : step;
  job.headers = with_step_key(std::move(job.headers), workflow::key_of(w.record, w.summary, keyed));
  ++w.summary.live;
  status->job = rows_.make_job(job, {.workflow = w.record.id, .step = step});
  note_live(w, step, status->job);
  return {};
}

void WorkflowRules::note_live(Open& w, int step, JobId job) {
  if (!w.is_packed(step)) rows_.put(w.record.id, WorkflowRow::live, step, std::to_string(job));
}

void WorkflowRules::forget_live(Open& w, int step) {
  if (!w.is_packed(step)) rows_.remove(w.record.id, WorkflowRow::live, step);
}

std::vector<JobId> WorkflowRules::live_jobs(Open& w) {
  std::vector<JobId> out;
  for (const StepStatus& status : w.summary.states) {
    const bool lives = status.state == StepState::running && status.job != 0;
    if (lives && !MS_MUTANT(packed_jobs_live_on)) out.push_back(status.job);
  }
  if (w.is_packed(w.summary.steps)) return out;
  for (const auto& [step, job] :
       rows_.rows(w.record.id, WorkflowRow::live, WorkflowRows::Order::up, INT32_MAX))
    out.push_back(std::stoll(job));
  return out;
}

Result<void> WorkflowRules::begin_each(Open& w, int step, const StepDefinition& definition) {
  MS_TRY_ASSIGN(StepStatus * group, status(w, step));
  auto list = workflow::resolve(
      definition.spec.each,
      [&](std::string_view name) { return value(w, definition.plan.refs, group, name); },
      workflow::Missing::refuse, kMaxArgsBytes);
  if (!list) return fail_to_resolve(w, step, "each", list.error());
  JsonReader in(*list, JsonReader::Unknown::skip);
  if (in.peek() != JsonType::array) return fail(w, step, "its each is not an array", false);
  std::vector<std::string> items;
  const SubWorkflow& child = definition.spec.workflow;
  const std::size_t room =
      std::min({kMaxFanOut, kMaxStepsInAll - static_cast<std::size_t>(w.summary.steps),
                child ? kMaxStepsInAll / workflow::steps_in_all(*child) : kMaxFanOut});
  if (!in.array(room,
                [&](std::size_t) { return in.raw(items.emplace_back(), JsonReader::Null::take); }))
    return fail(w, step, fmt::format("its each has more than {} elements", room), false);
  group->first = w.summary.steps + 1;
  group->count = group->pending = static_cast<int>(items.size());
  group->bytes = 0;
  w.summary.steps += group->count;
  for (int i = 0; i < group->count; ++i) {
    add_step(w, group->first + i,
             {.state = StepState::running, .of = step, .index = i, .started_at = now_.us()});
    ++w.summary.running;
  }
  const bool may_park =
      definition.spec.on_failure == OnStepFailure::park && !MS_MUTANT(element_lost_for_retry);
  const bool keep_items = definition.spec.undo || may_park;
  for (int i = 0; i < group->count && forward(w); ++i) {
    const int number = group->first + i;
    if (definition.spec.deadline) wake_at(w, number, now_ + *definition.spec.deadline);
    rows_.put(w.record.id, WorkflowRow::item, number, items[static_cast<std::size_t>(i)]);
    MS_TRY(begin_part(w, number, definition));
    const bool parked = w.known_status(number).state == StepState::failed;
    if (!keep_items && !parked) rows_.remove(w.record.id, WorkflowRow::item, number);
  }
  if (items.empty()) return complete(w, step, "");
  return {};
}

Result<void> WorkflowRules::listen(Open& w, int step, const std::string& name) {
  if (w.summary.waiting_signals > 0) {
    for (auto& [seq, text] : rows_.rows(w.record.id, WorkflowRow::signal, WorkflowRows::Order::up,
                                        static_cast<int>(kMaxWorkflowSignals))) {
      const auto end = text.find('\n');
      if (std::string_view(text).substr(0, end) != name) continue;
      rows_.remove(w.record.id, WorkflowRow::signal, seq);
      --w.summary.waiting_signals;
      return complete(w, step, text.substr(end + 1));
    }
  }
  rows_.put(w.record.id, WorkflowRow::listen, step, name);
  return {};
}

// -- steps end ------------------------------------------------------------------------------------

void WorkflowRules::note_undo(Open& w, int step, const StepDefinition& definition) {
  const StepStatus& status = w.known_status(step);
  if (!definition.spec.each.empty() && status.of == 0) return;  // its jobs are undone one by one
  const bool child_did =
      status.workflow != 0 && !MS_MUTANT(child_not_undone) &&
      !rows_.rows(status.workflow, WorkflowRow::undo, WorkflowRows::Order::down, 1).empty();
  if (!definition.spec.undo && !child_did) return;
  rows_.put(w.record.id, WorkflowRow::undo, w.summary.seq, std::to_string(step));
}

Result<void> WorkflowRules::complete(Open& w, int step, const std::string& result) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  status->state = StepState::completed;
  status->ended_at = now_.us();
  status->seq = ++w.summary.seq;
  --w.summary.running;
  ++w.summary.completed;
  if (!result.empty()) rows_.put(w.record.id, WorkflowRow::result, step, result);
  if (result.size() > kSmallResult || status->of != 0)
    MS_TRY(note_results(w, step, result.size() + 1));
  note_undo(w, step, *definition);
  return no_more_waited_for(w, step, How::completed);
}

Result<void> WorkflowRules::fail_to_resolve(Open& w, int step, std::string_view what,
                                            const Error& error) {
  const bool too_large = error.code == ErrorCode::too_large && !MS_MUTANT(large_args_undo);
  return fail(w, step, cut(fmt::format("its {}: {}", what, error.message)), false,
              too_large ? Fault::too_large : Fault::of_step);
}

Result<void> WorkflowRules::note_results(Open& w, int step, std::size_t bytes) {
  const auto add = [&](StepStatus& to) {
    const bool known = std::cmp_greater(to.bytes, kMaxArgsBytes);
    to.bytes += static_cast<std::int64_t>(bytes);
    return !known && std::cmp_greater(to.bytes, kMaxArgsBytes);
  };
  const int group = w.known_status(step).of;
  if (group != 0) {
    MS_TRY_ASSIGN(StepStatus * list, status(w, group));
    if (!add(*list)) return {};
  }
  MS_TRY_ASSIGN(const auto definition, this->definition(w, group == 0 ? step : group));
  for (const int child : definition->plan.children) {
    MS_TRY_ASSIGN(const auto later, this->definition(w, child));
    if (!workflow::refers_to_all(later->spec, definition->spec.name)) continue;
    if (group != 0) {
      tell_too_large(w, later->spec.name, "the results of step " + definition->spec.name);
      continue;
    }
    MS_TRY_ASSIGN(StepStatus * waiting, status(w, child));
    if (add(*waiting)) tell_too_large(w, later->spec.name, "the results that it refers to");
  }
  return {};
}

void WorkflowRules::tell_too_large(Open& w, std::string_view step, std::string_view results) {
  w.summary.reason = fmt::format("step {} will not start: {} are over {} bytes together", step,
                                 results, kMaxArgsBytes);
  alarms_.push_back(fmt::format("workflow {}: {}", w.record.id, w.summary.reason));
  w.changed = true;
}

Result<void> WorkflowRules::fail(Open& w, int step, std::string reason, bool unknown, Fault fault) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  status->state = StepState::failed;
  status->ended_at = now_.us();
  status->seq = ++w.summary.seq;
  status->reason = std::move(reason);
  --w.summary.running;
  ++w.summary.failed;
  // What is too large is no failure of the finished steps: nothing is undone for it.
  const bool parks =
      (definition->spec.on_failure == OnStepFailure::park && !MS_MUTANT(stuck_step_undone)) ||
      (definition->spec.on_failure == OnStepFailure::undo && fault == Fault::too_large);
  // Once its effect is unknown it stays unknown, whatever the job of a retry reports.
  unknown = unknown || (status->unknown && !MS_MUTANT(doubt_forgotten));
  if (parks) status->unknown = unknown;  // read only for steps that park
  const bool undone = unknown && !MS_MUTANT(unknown_step_not_undone);
  if (undone || definition->spec.undo_if_failed) note_undo(w, step, *definition);
  if (!forward(w)) return {};
  if (definition->spec.on_failure == OnStepFailure::go_on)
    return no_more_waited_for(w, step, How::went_on);
  if (parks) {
    park_for(w, step, *definition);
    return {};
  }
  return undo(w, fmt::format("step {}: {}", definition->spec.name, status->reason), false);
}

Result<void> WorkflowRules::skip(Open& w, int step, std::string reason) {
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  status->state = StepState::skipped;
  status->ended_at = now_.us();
  status->reason = std::move(reason);
  ++w.summary.skipped;
  return no_more_waited_for(w, step, How::skipped);
}

Result<void> WorkflowRules::no_more_waited_for(Open& w, int step, How how) {
  MS_TRY_ASSIGN(const StepStatus* ended, status(w, step));
  if (ended->of != 0) {
    const int of = ended->of;
    MS_TRY_ASSIGN(StepStatus * group, status(w, of));
    const bool first_is_all = MS_MUTANT(list_ends_with_its_first);
    if ((--group->pending > 0 && !first_is_all) || group->state != StepState::running) return {};
    return complete(w, of, "");  // the results of its jobs are read when something refers to them
  }
  --w.summary.open;
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  for (const int child : definition->plan.children) {
    MS_TRY_ASSIGN(StepStatus * next, status(w, child));
    --next->pending;
    if (how != How::skipped || MS_MUTANT(skipped_counts_as_come)) ++next->came;
    const bool last = next->pending == 0 || MS_MUTANT(join_with_the_first_parent);
    if (last && next->state == StepState::waiting) w.ready.push_back(child);
  }
  return {};
}

Result<void> WorkflowRules::ended(const StepEnd& end) {
  MS_TRY_ASSIGN(Open * w, open(end.of.workflow));
  if (w == nullptr) return {};
  const int step = end.of.step;
  MS_TRY_ASSIGN(StepStatus * status, this->status(*w, step));
  const bool awaited = end.of.undo
                           ? status->undo_job == end.job && status->state == StepState::undoing
                           : status->job == end.job && status->state == StepState::running;
  if (!awaited) return {};
  w->changed = true;
  forget_live(*w, step);
  if (end.of.undo) {
    MS_TRY(undo_ended(*w, step, end));
    return settle();
  }
  --w->summary.live;
  if (end.state == JobState::completed) {
    MS_TRY(complete(*w, step, end.result));
  } else {
    MS_TRY(fail(*w, step, reason_of(end), end.unknown));
  }
  MS_TRY(begin_ready(*w));
  MS_TRY(go_on_undoing(*w));
  return settle();
}

Result<void> WorkflowRules::complete_workflow(Open& w) {
  if (const auto asked = start_text(w, workflow::kTextResultAsked)) {
    auto result = workflow::resolve(
        *asked, [&](std::string_view name) { return value(w, w.summary.refs, nullptr, name); },
        workflow::Missing::null, kMaxResultBytes);
    if (result)
      rows_.put(w.record.id, WorkflowRow::text, workflow::kTextResult, *result);
    else
      w.summary.reason = cut("its result: " + result.error().message);
  }
  finish(w, WorkflowState::completed);
  return {};
}

// -- values ---------------------------------------------------------------------------------------

std::optional<std::string> WorkflowRules::result_of(Open& w, int step) {
  const auto found = status(w, step);
  if (!found) return std::nullopt;
  const StepStatus status = **found;
  if (status.state == StepState::waiting || status.state == StepState::skipped ||
      status.state == StepState::running)
    return std::nullopt;
  const auto definition = this->definition(w, step);
  if (!definition) return std::nullopt;
  // A step that could not start and was marked as done by hand has the operator's result.
  const bool has_jobs = !(*definition)->spec.each.empty() && status.of == 0 &&
                        (status.count > 0 || !rows_.row(w.record.id, WorkflowRow::result, step));
  if (!has_jobs) {
    auto result = rows_.row(w.record.id, WorkflowRow::result, step);
    if (!result && status.state == StepState::failed) return std::nullopt;
    return result ? result : std::optional<std::string>("null");
  }
  std::string all = "[";
  for (int i = 0; i < status.count; ++i) {
    const auto one = rows_.row(w.record.id, WorkflowRow::result, status.first + i);
    if (i != 0) all += ',';
    all += one ? *one : "null";
    if (all.size() > kMaxArgsBytes) break;  // the caller then reports that it is too large
  }
  return all + "]";
}

std::optional<std::string> WorkflowRules::value(Open& w, const std::map<std::string, int>& refs,
                                                const StepStatus* of, std::string_view name) {
  if (name == "input") return start_text(w, workflow::kTextInput);
  if (name == "workflow") {
    std::string out;
    JsonWriter(out)
        .begin_object()
        .key("id")
        .number(w.record.id)
        .key("name")
        .string(w.record.name)
        .end_object();
    return out;
  }
  if (name == "item") {
    if (of == nullptr || of->of == 0) return std::nullopt;
    const auto group = status(w, of->of);
    if (!group) return std::nullopt;
    return rows_.row(w.record.id, WorkflowRow::item, (*group)->first + of->index);
  }
  const auto found = refs.find(std::string(name));
  if (found == refs.end()) return std::nullopt;
  // In a job of `each`, the step's name refers to that job itself.
  return result_of(w, found->second);
}

// -- time -----------------------------------------------------------------------------------------

void WorkflowRules::wake_at(Open& w, int step, WallTime at) {
  std::string& steps = w.wakes[at.us()];
  if (!steps.empty()) steps += ',';
  steps += std::to_string(step);
  w.record.wake_at = std::min(w.record.wake_at, at);
  w.changed = true;
}

void WorkflowRules::write_wakes(Open& w) {
  for (auto& [at, steps] : w.wakes) {
    if (const auto row = rows_.row(w.record.id, WorkflowRow::wake, at)) steps = *row + "," + steps;
    rows_.put(w.record.id, WorkflowRow::wake, at, steps);
  }
  w.wakes.clear();
}

Result<bool> WorkflowRules::wake(WorkflowId id) {
  MS_TRY_ASSIGN(Open * w, open(id));
  if (w == nullptr || is_terminal(w->record.state)) return false;
  w->changed = true;
  write_wakes(*w);
  int woken = 0;
  while (woken < kMaxWoken) {
    const auto next = rows_.rows(id, WorkflowRow::wake, WorkflowRows::Order::up, 1);
    if (next.empty() || next.front().first > now_.us()) break;
    rows_.remove(id, WorkflowRow::wake, next.front().first);
    for (std::string_view rest = next.front().second; !rest.empty(); ++woken) {
      const auto comma = rest.find(',');
      MS_TRY(wake_step(*w, std::stoi(std::string(rest.substr(0, comma)))));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  const auto next = rows_.rows(id, WorkflowRow::wake, WorkflowRows::Order::up, 1);
  w->record.wake_at = next.empty() ? WallTime::never() : WallTime::from_us(next.front().first);
  MS_TRY(begin_ready(*w));
  MS_TRY(go_on_undoing(*w));
  MS_TRY(settle());
  return w->record.wake_at <= now_;
}

Result<void> WorkflowRules::wake_step(Open& w, int step) {
  if (!forward(w)) return {};
  if (w.record.state == WorkflowState::parked && MS_MUTANT(parked_timer_lost)) return {};
  if (step == 0) return undo(w, "it was not done by its deadline", false);
  MS_TRY_ASSIGN(StepStatus * status, this->status(w, step));
  if (status->state != StepState::running) return {};
  MS_TRY_ASSIGN(const auto definition, this->definition(w, step));
  const auto limit = definition->spec.sleep ? definition->spec.sleep : definition->spec.deadline;
  const WallTime at = WallTime::from_us(status->started_at) + limit.value_or(Duration(0));
  // The deadline is from before a retry.
  if (at > now_ && !MS_MUTANT(old_deadline_fails_retry)) return {};
  if (definition->spec.sleep) return complete(w, step, "");
  rows_.remove(w.record.id, WorkflowRow::listen, step);
  if (status->workflow != 0) {  // the step fails when its child is undone
    tell(Tell::cancel, status->workflow, "its step was not done by its deadline");
    return {};
  }
  if (status->job != 0) {
    // Later reports of the job are ignored.
    forget_live(w, step);
    rows_.forget_job(status->job);
    rows_.cancel_job(status->job, "its step was not done by its deadline");
    --w.summary.live;
  }
  return fail(w, step, "it was not done by its deadline", status->job != 0);
}

}  // namespace mainspring
