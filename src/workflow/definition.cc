// Checks a workflow's definition.
#include "workflow/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/json.h"
#include "api/workflow_shapes.h"
#include "workflow/references.h"

namespace mainspring {
namespace workflow {
namespace {

constexpr std::string_view kInput = "input", kItem = "item", kWorkflow = "workflow";

Error refused(std::string field, std::string_view rule) {
  std::string message = fmt::format("{} {}", field, rule);
  return Error{ErrorCode::invalid_argument, std::move(message), std::move(field)};
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxStepNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

Result<void> check_job(const std::string& field, const NewJob& job) {
  MS_TRY(mainspring::validate(job, field + "."));
  const char* const rule = "is not for a step: the workflow says when its jobs are made";
  if (job.unique) return refused(field + ".unique", rule);
  if (job.run_at) return refused(field + ".run_at", rule);
  if (job.delay) return refused(field + ".delay", rule);
  if (job.expires_in) return refused(field + ".expires_in", rule);
  return {};
}

Result<void> check_kind(const std::string& field, const StepSpec& step) {
  const int kinds = (step.job ? 1 : 0) + (step.workflow ? 1 : 0) + (step.sleep ? 1 : 0) +
                    (step.signal.empty() ? 0 : 1);
  if (kinds != 1) {
    return refused(field,
                   "must have exactly one of \"job\", \"workflow\", \"sleep\" and \"signal\", and "
                   "that not empty");
  }
  if (step.job) MS_TRY(check_job(field + ".job", *step.job));
  if (step.undo) MS_TRY(check_job(field + ".undo", *step.undo));
  if (step.workflow && step.undo)
    return refused(field + ".undo", "needs \"job\": a workflow is undone step by step");
  if (!step.job && step.undo) return refused(field + ".undo", "needs \"job\"");
  if (!step.job && !step.workflow && !step.each.empty())
    return refused(field + ".each", "needs \"job\" or \"workflow\"");
  if (!step.undo && step.undo_if_failed)
    return refused(field + ".undo_if_failed", "needs \"undo\"");
  if (!step.signal.empty() && !is_name(step.signal))
    return refused(field + ".signal", "must be 1 to 64 of A-Z, a-z, 0-9, _ and -");
  if (step.sleep && *step.sleep < Duration(0))
    return refused(field + ".sleep", "must not be negative");
  if (step.deadline && (step.sleep || *step.deadline <= Duration(0))) {
    return refused(field + ".deadline",
                   step.sleep ? "cannot be given with \"sleep\"" : "must be more than 0");
  }
  if (step.each.empty()) return {};
  MS_TRY(check_json(field + ".each", step.each));
  const bool refers = step.each.find("\"$ref\"") != std::string::npos;
  const JsonType type = JsonReader(step.each, JsonReader::Unknown::skip).peek();
  if (type != JsonType::array && !refers)
    return refused(field + ".each", "must be an array, or {\"$ref\": …} of one");
  return {};
}

class Planner {
 public:
  Planner(const WorkflowSpec& spec, int depth)
      : spec_(spec), depth_(depth), out_(spec.steps.size()) {}

  Result<std::vector<PlannedStep>> run() {
    MS_TRY(check_whole());
    for (std::size_t i = 0; i < spec_.steps.size(); ++i) MS_TRY(check_step(i));
    for (std::size_t i = 0; i < spec_.steps.size(); ++i) MS_TRY(connect(i));
    MS_TRY(note_references("result", spec_.result, nullptr, nullptr, nullptr));
    MS_TRY(check_circles());
    return std::move(out_);
  }

 private:
  Result<void> check_whole() {
    MS_TRY(check_name("name", spec_.name));
    if (spec_.steps.empty()) return refused("steps", "must have at least one");
    const std::size_t steps = depth_ == 1 ? steps_in_all(spec_) : spec_.steps.size();
    if (steps > kMaxWorkflowSteps) {
      const bool with_others = steps > spec_.steps.size();
      return Error{
          ErrorCode::too_large,
          fmt::format("steps has {}{}: at most {}", steps,
                      with_others ? " with those of sub-workflows" : "", kMaxWorkflowSteps),
          "steps"};
    }
    MS_TRY(check_json("input", spec_.input));
    if (spec_.input.size() > kMaxArgsBytes || spec_.result.size() > kMaxArgsBytes) {
      const char* const field = spec_.input.size() > kMaxArgsBytes ? "input" : "result";
      return Error{ErrorCode::too_large, fmt::format("{} is over {} bytes", field, kMaxArgsBytes),
                   field};
    }
    if (!spec_.result.empty()) MS_TRY(check_json("result", spec_.result));
    if (spec_.key.size() > kMaxKeyBytes || !is_utf8(spec_.key))
      return refused("key", fmt::format("must be UTF-8 of up to {} bytes", kMaxKeyBytes));
    if (spec_.key_for < Duration(0) || spec_.key_for > kMaxWorkflowKeyFor)
      return refused("key_for", "must be 0s to 8760h");
    if (spec_.deadline && *spec_.deadline <= Duration(0))
      return refused("deadline", "must be more than 0");
    return {};
  }

  static std::string field_of(std::size_t i) { return fmt::format("steps[{}]", i); }

  Result<void> check_step(std::size_t i) {
    const StepSpec& step = spec_.steps[i];
    const std::string field = field_of(i);
    if (!is_name(step.name))
      return refused(field + ".name",
                     fmt::format("\"{}\": must be 1 to 64 of A-Z, a-z, 0-9, _ and -",
                                 cut_text(step.name, 64)));
    if (step.name == kInput || step.name == kItem || step.name == kWorkflow)
      return refused(
          field + ".name",
          fmt::format("\"{}\": must not be \"input\", \"item\" or \"workflow\"", step.name));
    if (!numbers_.emplace(step.name, static_cast<int>(i) + 1).second)
      return refused(field + ".name", fmt::format("\"{}\" is given twice", step.name));
    MS_TRY(check_kind(field, step));
    return step.workflow ? check_sub_workflow(field + ".workflow", *step.workflow) : Result<void>();
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxWorkflowDepth bounds it
  Result<void> check_sub_workflow(const std::string& field, const WorkflowSpec& spec) const {
    if (depth_ == kMaxWorkflowDepth) {
      return refused(field,
                     fmt::format("is too deep: at most {} nested workflows", kMaxWorkflowDepth));
    }
    if (!spec.key.empty())
      return refused(field + ".key", "is not for a step: its workflow has the key");
    auto planned = plan(spec, depth_ + 1);
    if (planned) return {};
    Error error = planned.error();
    error.field = fmt::format("{}.{}", field, error.field);
    error.message = fmt::format("{}.{}", field, error.message);
    return error;
  }

  // `step` nullptr: references of the workflow's result. Every step that is found becomes a parent,
  // except the step itself.
  Result<void> note_references(const std::string& field, std::string_view json,
                               const StepSpec* step, std::set<int>* parents, PlannedStep* into) {
    if (json.empty()) return {};
    Result<void> known;
    MS_TRY(for_each_reference(field, json, [&](std::string_view name) {
      if (known) known = note_name(field, name, step, parents, into);
    }));
    return known;
  }

  Result<void> note_name(const std::string& field, std::string_view name, const StepSpec* step,
                         std::set<int>* parents, PlannedStep* into) {
    if (name == kInput || name == kWorkflow) return {};
    if (name == kItem) {
      if (step != nullptr && !step->each.empty()) return {};
      return refused(field, "refers to \"item\", which only steps with \"each\" have");
    }
    const auto found = numbers_.find(name);
    if (found == numbers_.end())
      return refused(field,
                     fmt::format("refers to \"{}\", which is not a step", name.substr(0, 100)));
    if (into == nullptr) return {};
    into->refs.emplace(name, found->second);
    const bool itself = step != nullptr && step->name == name;
    if (itself && parents != nullptr)
      return refused(field, "refers to the step itself: only its \"undo\" can");
    if (!itself && parents != nullptr) parents->insert(found->second);
    return {};
  }

  Result<void> connect(std::size_t i) {
    const StepSpec& step = spec_.steps[i];
    const std::string field = field_of(i);
    PlannedStep& planned = out_[i];
    const int number = static_cast<int>(i) + 1;
    std::set<int> parents;
    for (std::size_t k = 0; k < step.after.size(); ++k) {
      const auto found = numbers_.find(step.after[k]);
      if (found == numbers_.end() || found->second == number) {
        return refused(fmt::format("{}.after[{}]", field, k),
                       fmt::format("is \"{}\", which is {}", step.after[k].substr(0, 100),
                                   found == numbers_.end() ? "no step" : "the step itself"));
      }
      parents.insert(found->second);
    }
    if (step.job)
      MS_TRY(note_references(field + ".job.args", step.job->args, &step, &parents, &planned));
    if (step.workflow) {
      MS_TRY(note_references(field + ".workflow.input", step.workflow->input, &step, &parents,
                             &planned));
    }
    MS_TRY(note_references(field + ".each", step.each, &step, &parents, &planned));
    if (step.only_if) {
      MS_TRY(note_name(field + ".if.ref", name_of(step.only_if->ref), nullptr, &parents, &planned));
    }
    // The undo job needs every step that its definition refers to.
    if (step.undo) MS_TRY(note_undo(field, step, parents, planned));
    planned.parents.assign(parents.begin(), parents.end());
    edges_ += parents.size();
    if (edges_ > kMaxWorkflowEdges) {
      return Error{ErrorCode::too_large,
                   fmt::format("the steps wait for one another {} times: at most {}", edges_,
                               kMaxWorkflowEdges),
                   "steps"};
    }
    for (const int parent : parents)
      out_[static_cast<std::size_t>(parent) - 1].children.push_back(number);
    return {};
  }

  Result<void> note_undo(const std::string& field, const StepSpec& step, std::set<int>& parents,
                         PlannedStep& planned) {
    const auto own = numbers_.find(step.name);
    PlannedStep found;
    MS_TRY(note_references(field + ".undo.args", step.undo->args, &step, nullptr, &found));
    for (const auto& [name, number] : found.refs) {
      if (number != own->second) parents.insert(number);
      planned.refs.emplace(name, number);
    }
    return {};
  }

  // Repeatedly removes steps that wait for nothing; the rest is a cycle.
  Result<void> check_circles() {
    std::vector<std::size_t> open;
    std::vector<int> free;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      open.push_back(out_[i].parents.size());
      if (open[i] == 0) free.push_back(static_cast<int>(i) + 1);
    }
    std::size_t seen = 0;
    while (!free.empty()) {
      const auto number = static_cast<std::size_t>(free.back());
      free.pop_back();
      ++seen;
      for (const int child : out_[number - 1].children) {
        if (--open[static_cast<std::size_t>(child) - 1] == 0) free.push_back(child);
      }
    }
    if (seen == out_.size()) return {};
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (open[i] != 0)
        return refused(
            field_of(i) + ".after",
            fmt::format("waits for itself through other steps: \"{}\"", spec_.steps[i].name));
    }
    return {};
  }

  const WorkflowSpec& spec_;
  const int depth_;
  std::vector<PlannedStep> out_;
  std::map<std::string, int, std::less<>> numbers_;
  std::size_t edges_ = 0;
};

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): kMaxWorkflowDepth bounds it
Result<std::vector<PlannedStep>> plan(const WorkflowSpec& spec, int depth) {
  return Planner(spec, depth).run();
}

std::size_t steps_in_all(const WorkflowSpec& spec) {
  // Definitions nested deeper than allowed are refused by the depth check.
  std::vector<std::pair<const WorkflowSpec*, int>> left{{&spec, 1}};
  std::size_t steps = 0;
  while (!left.empty()) {
    const auto [one, depth] = left.back();
    left.pop_back();
    steps += one->steps.size();
    for (const StepSpec& step : one->steps) {
      if (step.workflow && depth < kMaxWorkflowDepth) left.emplace_back(&*step.workflow, depth + 1);
    }
  }
  return steps;
}

std::map<std::string, int> result_refs(const WorkflowSpec& spec) {
  std::map<std::string, int> numbers, out;
  if (spec.result.empty()) return out;
  for (std::size_t i = 0; i < spec.steps.size(); ++i)
    numbers.emplace(spec.steps[i].name, static_cast<int>(i) + 1);
  (void)for_each_reference("result", spec.result, [&](std::string_view name) {
    const auto found = numbers.find(std::string(name));
    if (found != numbers.end()) out.insert(*found);
  });
  return out;
}

}  // namespace workflow

Result<void> validate(const WorkflowSpec& spec) {
  MS_TRY(workflow::plan(spec));
  return {};
}

}  // namespace mainspring
