// The shapes of requests and answers about started workflows.
#include "api/fields.h"
#include "api/workflow_shapes.h"

namespace mainspring {
namespace {

constexpr JsonField<WorkflowStarted> kStarted[] = {
    {"id", &as_id<&WorkflowStarted::id>},
    {"duplicate", &as_boolean<&WorkflowStarted::duplicate>},
};

bool read_payload(JsonReader& in, SignalWorkflow& s) {
  if (!in.raw(s.payload, JsonReader::Null::take)) return false;
  return s.payload.size() <= kMaxSignalBytes ||
         in.fail(ErrorCode::too_large, "payload is over 64 KiB", "payload");
}

constexpr JsonField<SignalWorkflow> kSignal[] = {
    {"name", &as_string<&SignalWorkflow::name>},
    {"id", &as_optional_string<&SignalWorkflow::signal_id>},
    {"payload", &read_payload},
};
constexpr JsonField<CancelWorkflow> kCancel[] = {{"reason", [](JsonReader& in, CancelWorkflow& c) {
                                                    return in.null() ||
                                                           in.text(c.reason, kMaxTextBytes);
                                                  }}};
constexpr JsonField<RetryWorkflow> kRetry[] = {
    {"step", &as_optional_string<&RetryWorkflow::step>},
    {"by_hand", &as_boolean<&RetryWorkflow::by_hand>},
    {"result",
     [](JsonReader& in, RetryWorkflow& r) { return in.raw(r.result, JsonReader::Null::take); }},
};

constexpr JsonField<ForkWorkflow> kFork[] = {
    {"step", &as_string<&ForkWorkflow::step>},
    {"input", [](JsonReader& in,
                 ForkWorkflow& f) { return in.raw(f.input.emplace(), JsonReader::Null::take); }},
    {"key", &as_optional_string<&ForkWorkflow::key>},
    {"key_for", &as_duration<&ForkWorkflow::key_for>},
};
constexpr JsonField<ForkedFrom> kForkedFrom[] = {
    {"id", &as_id<&ForkedFrom::id>},
    {"step", &as_string<&ForkedFrom::step>},
};

constexpr JsonField<WorkflowParent> kParent[] = {
    {"workflow", &as_id<&WorkflowParent::workflow>},
    {"step", &as_string<&WorkflowParent::step>},
};

bool read_workflow_state(JsonReader& in, WorkflowInfo& info) {
  std::string text;
  if (!in.string(text)) return false;
  const auto state = parse_workflow_state(text);
  if (!state) return in.fail_here("is not a state of a workflow");
  info.state = *state;
  return true;
}
constexpr JsonField<WorkflowInfo> kStepCounts[] = {
    {"all", &as_integer<&WorkflowInfo::steps, 0, INT32_MAX>},
    {"completed", &as_integer<&WorkflowInfo::completed, 0, INT32_MAX>},
    {"failed", &as_integer<&WorkflowInfo::failed, 0, INT32_MAX>},
    {"skipped", &as_integer<&WorkflowInfo::skipped, 0, INT32_MAX>},
    {"running", &as_integer<&WorkflowInfo::running, 0, INT32_MAX>},
    {"undone", &as_integer<&WorkflowInfo::undone, 0, INT32_MAX>},
    {"undo_failed", &as_integer<&WorkflowInfo::undo_failed, 0, INT32_MAX>},
};
constexpr JsonField<WorkflowInfo> kWorkflowInfo[] = {
    {"id", &as_id<&WorkflowInfo::id>},
    {"name", &as_string<&WorkflowInfo::name>},
    {"key", &as_string<&WorkflowInfo::key>},
    {"state", &read_workflow_state},
    {"paused", &as_boolean<&WorkflowInfo::paused>},
    {"reason", &as_string<&WorkflowInfo::reason>},
    {"input", &as_raw<&WorkflowInfo::input>},
    {"result", &as_raw<&WorkflowInfo::result>},
    {"steps", [](JsonReader& in, WorkflowInfo& info) { return in.object(kStepCounts, info); }},
    {"started_at", &as_time<&WorkflowInfo::started_at>},
    {"finished_at", &as_optional_time<&WorkflowInfo::finished_at>},
    {"deadline_at", &as_optional_time<&WorkflowInfo::deadline_at>},
    {"version", &as_count<&WorkflowInfo::version>},
    {"forked_from",
     [](JsonReader& in, WorkflowInfo& info) {
       return in.object(kForkedFrom, info.forked_from.emplace());
     }},
    {"parent",
     [](JsonReader& in, WorkflowInfo& info) { return in.object(kParent, info.parent.emplace()); }},
};

void write_workflow_info(JsonWriter& w, const WorkflowInfo& info, Payload payload) {
  w.begin_object().key("id").number(info.id).key("name").string(info.name);
  if (!info.key.empty()) w.key("key").string(info.key);
  w.key("state").string(to_string(info.state)).key("paused").boolean(info.paused);
  if (!info.reason.empty() && payload == Payload::shown) w.key("reason").string(info.reason);
  if (!info.input.empty()) w.key("input").raw(payload == Payload::shown ? info.input : "null");
  if (!info.result.empty()) w.key("result").raw(payload == Payload::shown ? info.result : "null");
  w.key("steps").begin_object().key("all").number(info.steps);
  w.key("completed").number(info.completed).key("failed").number(info.failed);
  w.key("skipped").number(info.skipped).key("running").number(info.running);
  w.key("undone").number(info.undone).key("undo_failed").number(info.undo_failed).end_object();
  w.key("started_at").time(info.started_at);
  if (info.finished_at) w.key("finished_at").time(*info.finished_at);
  if (info.deadline_at) w.key("deadline_at").time(*info.deadline_at);
  w.key("version").number(info.version);
  if (info.forked_from) {
    w.key("forked_from").begin_object().key("id").number(info.forked_from->id);
    w.key("step").string(info.forked_from->step).end_object();
  }
  if (info.parent) {
    w.key("parent").begin_object().key("workflow").number(info.parent->workflow);
    w.key("step").string(info.parent->step).end_object();
  }
  w.end_object();
}

bool read_step_state(JsonReader& in, WorkflowStep& step) {
  std::string text;
  if (!in.string(text)) return false;
  const auto state = parse_step_state(text);
  if (!state) return in.fail_here("is not a state of a step");
  step.state = *state;
  return true;
}
constexpr JsonField<WorkflowStep> kWorkflowStep[] = {
    {"number", &as_integer<&WorkflowStep::number, 1, INT32_MAX>},
    {"name", &as_string<&WorkflowStep::name>},
    {"state", &read_step_state},
    {"after",
     [](JsonReader& in, WorkflowStep& s) { return read_strings(in, s.after, kMaxStepParents); }},
    {"job", &as_id<&WorkflowStep::job>},
    {"undo_job", &as_id<&WorkflowStep::undo_job>},
    {"workflow", &as_id<&WorkflowStep::workflow>},
    {"of", &as_integer<&WorkflowStep::of, 1, INT32_MAX>},
    {"index", &as_integer<&WorkflowStep::index, 0, INT32_MAX>},
    {"result", &as_raw<&WorkflowStep::result>},
    {"reason", &as_string<&WorkflowStep::reason>},
    {"started_at", &as_optional_time<&WorkflowStep::started_at>},
    {"ended_at", &as_optional_time<&WorkflowStep::ended_at>},
    {"taken_over", &as_boolean<&WorkflowStep::taken_over>},
    {"job_state",
     [](JsonReader& in, WorkflowStep& s) {
       return mainspring::read_state(in, s.job_state.emplace());
     }},
    {"attempt", &as_integer<&WorkflowStep::attempt, 0, INT32_MAX>},
    {"max_attempts", &as_integer<&WorkflowStep::max_attempts, 0, INT32_MAX>},
    {"worker", &as_string<&WorkflowStep::worker>},
    {"complete_by", &as_optional_time<&WorkflowStep::complete_by>},
};

void write_step(JsonWriter& w, const WorkflowStep& step, Payload payload) {
  w.begin_object().key("number").number(step.number).key("name").string(step.name);
  w.key("state").string(to_string(step.state));
  if (!step.after.empty()) {
    w.key("after").begin_array();
    for (const std::string& name : step.after) w.string(name);
    w.end_array();
  }
  if (step.job != 0) w.key("job").number(step.job);
  if (step.undo_job != 0) w.key("undo_job").number(step.undo_job);
  if (step.workflow != 0) w.key("workflow").number(step.workflow);
  if (step.of != 0) w.key("of").number(step.of).key("index").number(step.index);
  if (!step.result.empty()) w.key("result").raw(payload == Payload::shown ? step.result : "null");
  if (!step.reason.empty() && payload == Payload::shown) w.key("reason").string(step.reason);
  if (step.started_at) w.key("started_at").time(*step.started_at);
  if (step.ended_at) w.key("ended_at").time(*step.ended_at);
  if (step.taken_over) w.key("taken_over").boolean(true);
  if (step.job_state) {
    w.key("job_state").string(to_string(*step.job_state)).key("attempt").number(step.attempt);
    w.key("max_attempts").number(step.max_attempts);
  }
  if (!step.worker.empty()) w.key("worker").string(step.worker);
  if (step.complete_by) w.key("complete_by").time(*step.complete_by);
  w.end_object();
}

constexpr JsonField<WorkflowPage> kWorkflowPage[] = {
    {"workflows",
     [](JsonReader& in, WorkflowPage& page) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kWorkflowInfo, page.workflows.emplace_back());
       });
     }},
    {"next",
     [](JsonReader& in, WorkflowPage& page) {
       return in.null() || in.integer(page.next.emplace(), std::int64_t{1}, INT64_MAX);
     }},
};
constexpr JsonField<WorkflowStepPage> kSteps[] = {
    {"steps",
     [](JsonReader& in, WorkflowStepPage& page) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kWorkflowStep, page.steps.emplace_back());
       });
     }},
    {"next",
     [](JsonReader& in, WorkflowStepPage& page) {
       return in.null() || in.integer(page.next.emplace(), 1, INT32_MAX);
     }},
};

}  // namespace

void encode_workflow_started(const WorkflowStarted& started, std::string& out) {
  JsonWriter(out)
      .begin_object()
      .key("id")
      .number(started.id)
      .key("duplicate")
      .boolean(started.duplicate)
      .end_object();
}
Result<WorkflowStarted> decode_workflow_started(std::string_view body) {
  return decode_response(body, kStarted);
}

Result<SignalWorkflow> decode_signal_request(WorkflowId id, std::string_view body) {
  MS_TRY_ASSIGN(SignalWorkflow out, decode_request(body, kSignal, SignalWorkflow{.id = id}));
  if (out.name.empty() || out.name.size() > kMaxStepNameBytes) {
    return invalid("name",
                   out.name.empty() ? "name must be given" : "name must be at most 64 bytes");
  }
  if (out.signal_id.size() <= kMaxKeyBytes) return out;
  return invalid("id", "id must be at most 512 bytes");
}
void encode_signal_request(const SignalWorkflow& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(request.name);
  if (!request.signal_id.empty()) w.key("id").string(request.signal_id);
  if (!request.payload.empty()) w.key("payload").raw(request.payload);
  w.end_object();
}

void encode_workflow_signalled(const SignalWorkflow& request, std::string& out) {
  JsonWriter(out)
      .begin_object()
      .key("id")
      .number(request.id)
      .key("signal")
      .string(request.name)
      .end_object();
}

Result<CancelWorkflow> decode_cancel_workflow_request(WorkflowId id, std::string_view body) {
  if (body.empty()) return CancelWorkflow{.id = id};
  return decode_request(body, kCancel, CancelWorkflow{.id = id});
}
void encode_cancel_workflow_request(const CancelWorkflow& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.reason.empty()) w.key("reason").string(request.reason);
  w.end_object();
}

Result<RetryWorkflow> decode_retry_workflow_request(WorkflowId id, std::string_view body) {
  if (body.empty()) return RetryWorkflow{.id = id};
  return decode_request(body, kRetry, RetryWorkflow{.id = id});
}
void encode_retry_workflow_request(const RetryWorkflow& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.step.empty()) w.key("step").string(request.step);
  if (request.by_hand) w.key("by_hand").boolean(true);
  if (!request.result.empty()) w.key("result").raw(request.result);
  w.end_object();
}

Result<ForkWorkflow> decode_fork_request(WorkflowId id, std::string_view body) {
  return decode_request(body, kFork, ForkWorkflow{.id = id});
}
void encode_fork_request(const ForkWorkflow& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("step").string(request.step);
  if (request.input) w.key("input").raw(*request.input);
  if (!request.key.empty()) w.key("key").string(request.key);
  if (request.key_for != kDefaultWorkflowKeyFor) w.key("key_for").duration(request.key_for);
  w.end_object();
}

void encode_workflow_info(const WorkflowInfo& info, std::string& out, Payload payload) {
  JsonWriter w(out);
  write_workflow_info(w, info, payload);
}
Result<WorkflowInfo> decode_workflow_info(std::string_view body) {
  return decode_response(body, kWorkflowInfo);
}

void encode_workflow_page(const WorkflowPage& page, std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object().key("workflows").begin_array();
  for (const WorkflowInfo& info : page.workflows) write_workflow_info(w, info, payload);
  w.end_array().key("next");
  page.next ? w.number(*page.next) : w.null();
  w.end_object();
}
Result<WorkflowPage> decode_workflow_page(std::string_view body) {
  return decode_response(body, kWorkflowPage);
}

void encode_workflow_steps(const WorkflowStepPage& page, std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object().key("steps").begin_array();
  for (const WorkflowStep& step : page.steps) write_step(w, step, payload);
  w.end_array().key("next");
  page.next ? w.number(*page.next) : w.null();
  w.end_object();
}
Result<WorkflowStepPage> decode_workflow_steps(std::string_view body) {
  return decode_response(body, kSteps);
}

std::vector<std::string_view> workflow_call_fields(std::string_view schema) {
  if (schema == "WorkflowSignal") return field_names(kSignal);
  if (schema == "WorkflowRetry") return field_names(kRetry);
  if (schema == "WorkflowFork") return field_names(kFork);
  return {};
}

}  // namespace mainspring
