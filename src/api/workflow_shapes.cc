// The shape of a workflow's definition.
#include "api/workflow_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "api/schedule_fields.h"

namespace mainspring {
namespace {

bool read_step_job(JsonReader& in, std::optional<NewJob>& job) {
  return in.null() || read_new_job(in, job.emplace());
}

constexpr JsonField<StepCondition> kCondition[] = {
    {"ref", &as_string<&StepCondition::ref>},
    {"equals", &as_raw<&StepCondition::equals>},
    {"negate", &as_boolean<&StepCondition::negate>},
};

bool read_condition(JsonReader& in, StepSpec& step) {
  if (in.null()) return true;
  StepCondition& condition = step.only_if.emplace();
  if (!in.object(kCondition, condition)) return false;
  return !condition.ref.empty() || in.missing("ref");
}

std::string_view to_string(OnStepFailure what) {
  if (what == OnStepFailure::park) return "park";
  return what == OnStepFailure::go_on ? "continue" : "undo";
}

bool read_on_failure(JsonReader& in, StepSpec& step) {
  std::string text;
  if (!in.string(text)) return false;
  for (const OnStepFailure one : {OnStepFailure::undo, OnStepFailure::go_on, OnStepFailure::park}) {
    if (text != to_string(one)) continue;
    step.on_failure = one;
    return true;
  }
  return in.fail_value("must be \"undo\", \"continue\" or \"park\"");
}

bool read_workflow(JsonReader& in, WorkflowSpec& spec);

// NOLINTNEXTLINE(misc-no-recursion): the reader's depth bounds it
bool read_sub_workflow(JsonReader& in, StepSpec& step) {
  if (in.null()) return true;
  WorkflowSpec spec;
  if (!read_workflow(in, spec)) return false;
  step.workflow = spec;
  return true;
}

constexpr JsonField<StepSpec> kStepSpec[] = {
    {"name", &as_string<&StepSpec::name>},
    {"after", [](JsonReader& in,
                 StepSpec& s) { return in.null() || read_strings(in, s.after, kMaxStepParents); }},
    {"job", [](JsonReader& in, StepSpec& s) { return read_step_job(in, s.job); }},
    {"workflow", &read_sub_workflow},
    {"sleep", &as_optional_duration<&StepSpec::sleep>},
    {"signal", &as_optional_string<&StepSpec::signal>},
    {"each", &as_optional_raw<&StepSpec::each>},
    {"if", &read_condition},
    {"deadline", &as_optional_duration<&StepSpec::deadline>},
    {"on_failure", &read_on_failure},
    {"undo", [](JsonReader& in, StepSpec& s) { return read_step_job(in, s.undo); }},
    {"undo_if_failed", &as_boolean<&StepSpec::undo_if_failed>},
};

bool read_undo_order(JsonReader& in, WorkflowSpec& spec) {
  std::string text;
  if (!in.string(text)) return false;
  if (text != "reverse" && text != "parallel")
    return in.fail_value("must be \"reverse\" or \"parallel\"");
  spec.undo_order = text == "reverse" ? UndoOrder::reverse : UndoOrder::parallel;
  return true;
}

constexpr JsonField<WorkflowSpec> kWorkflow[] = {
    {"name", &as_string<&WorkflowSpec::name>},
    {"input", &as_raw<&WorkflowSpec::input>},
    {"steps",
     [](JsonReader& in, WorkflowSpec& w) {
       return in.array(kMaxWorkflowSteps,
                       [&](std::size_t) { return read_step_spec(in, w.steps.emplace_back()); });
     }},
    {"undo_order", &read_undo_order},
    {"deadline", &as_optional_duration<&WorkflowSpec::deadline>},
    {"result", &as_optional_raw<&WorkflowSpec::result>},
    {"key", &as_optional_string<&WorkflowSpec::key>},
    {"key_for", &as_duration<&WorkflowSpec::key_for>},
};

// NOLINTNEXTLINE(misc-no-recursion): the reader's depth bounds it
bool read_workflow(JsonReader& in, WorkflowSpec& spec) {
  return in.object(kWorkflow, spec);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the definition
void write_workflow(JsonWriter& w, const WorkflowSpec& spec) {
  w.begin_object().key("name").string(spec.name).key("input").raw(spec.input);
  w.key("steps").begin_array();
  for (const StepSpec& step : spec.steps) write_step_spec(w, step);
  w.end_array();
  if (spec.undo_order == UndoOrder::parallel) w.key("undo_order").string("parallel");
  if (spec.deadline) w.key("deadline").duration(*spec.deadline);
  if (!spec.result.empty()) w.key("result").raw(spec.result);
  if (!spec.key.empty()) w.key("key").string(spec.key);
  if (spec.key_for != kDefaultWorkflowKeyFor) w.key("key_for").duration(spec.key_for);
  w.end_object();
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the definition
Result<void> each_step_below(const std::string& path, const WorkflowSpec& spec, const OnStep& on) {
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    const std::string field = fmt::format("{}steps[{}]", path, i);
    const StepSpec& step = spec.steps[i];
    MS_TRY(on(field, step));
    if (step.workflow) MS_TRY(each_step_below(field + ".workflow.", *step.workflow, on));
  }
  return {};
}

}  // namespace

Result<void> for_each_step(const WorkflowSpec& spec, const OnStep& on) {
  return each_step_below("", spec, on);
}

// NOLINTNEXTLINE(misc-no-recursion): the reader's depth bounds it
bool read_step_spec(JsonReader& in, StepSpec& step) {
  return in.object(kStepSpec, step) && (!step.name.empty() || in.missing("name"));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the definition
void write_step_spec(JsonWriter& w, const StepSpec& step) {
  w.begin_object().key("name").string(step.name);
  if (!step.after.empty()) {
    w.key("after").begin_array();
    for (const std::string& name : step.after) w.string(name);
    w.end_array();
  }
  if (step.job) {
    w.key("job");
    write_new_job(w, *step.job);
  }
  if (step.workflow) {
    w.key("workflow");
    write_workflow(w, *step.workflow);
  }
  if (step.sleep) w.key("sleep").duration(*step.sleep);
  if (!step.signal.empty()) w.key("signal").string(step.signal);
  if (!step.each.empty()) w.key("each").raw(step.each);
  if (step.only_if) {
    w.key("if").begin_object().key("ref").string(step.only_if->ref);
    if (!step.only_if->equals.empty()) w.key("equals").raw(step.only_if->equals);
    if (step.only_if->negate) w.key("negate").boolean(true);
    w.end_object();
  }
  if (step.deadline) w.key("deadline").duration(*step.deadline);
  if (step.on_failure != OnStepFailure::undo)
    w.key("on_failure").string(to_string(step.on_failure));
  if (step.undo) {
    w.key("undo");
    write_new_job(w, *step.undo);
  }
  if (step.undo_if_failed) w.key("undo_if_failed").boolean(true);
  w.end_object();
}

Result<WorkflowSpec> decode_workflow(std::string_view body) {
  return decode_request(body, kWorkflow);
}

void encode_workflow(const WorkflowSpec& spec, std::string& out) {
  JsonWriter w(out);
  write_workflow(w, spec);
}

std::vector<std::string_view> workflow_request_fields(std::string_view schema) {
  if (schema == "WorkflowDefinition") return field_names(kWorkflow);
  if (schema == "WorkflowStepDefinition") return field_names(kStepSpec);
  if (schema == "WorkflowCondition") return field_names(kCondition);
  return {};
}

}  // namespace mainspring
