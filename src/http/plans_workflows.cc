// The plans of workflows.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/workflow_shapes.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "broker/workflow_calls.h"
#include "http/plans.h"
#include "model/trace_context.h"
#include "tracing/job_traces.h"

namespace mainspring::http {
namespace {

Reply no_workflow(WorkflowId id) {
  return error_reply({ErrorCode::not_found, fmt::format("there is no workflow {}", id)});
}

// A caller sees a workflow if it may read the queues of all the workflow's jobs.
bool may_read(const Caller& caller, const WorkflowInfo& info) {
  if (MS_MUTANT(foreign_workflow_shown)) return true;
  return std::all_of(info.queues.begin(), info.queues.end(),
                     [&](const std::string& queue) { return caller.may(Verb::read, queue); });
}
// Also payloads of its jobs, and reasons that contain their messages.
Payload payload_for(const Caller& caller, const WorkflowInfo& info) {
  const bool all =
      std::all_of(info.queues.begin(), info.queues.end(),
                  [&](const std::string& queue) { return caller.may(Verb::read_payload, queue); });
  return all ? Payload::shown : Payload::masked;
}
// Used where the workflow's queues are not known.
Payload payload_of_any(const Caller& caller) {
  return caller.may_all(Verb::read_payload) ? Payload::shown : Payload::masked;
}

Reply workflow_reply(const Result<WorkflowInfo>& info, WorkflowId id, const Caller& caller) {
  if (!info) return error_reply(info.error());
  if (!may_read(caller, *info)) return no_workflow(id);
  Reply reply;
  encode_workflow_info(*info, reply.body, payload_for(caller, *info));
  return reply;
}

// Watches while the object lives.
class Watch {
 public:
  Watch(Broker& broker, WorkflowId id, std::function<void()> changed)
      : broker_(broker), id_(broker.watch(Broker::watch_of(id), std::move(changed))) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { broker_.unwatch(id_); }

 private:
  Broker& broker_;
  const Broker::WatchId id_;
};

DoStream waited_workflow(WorkflowId id, Duration wait, std::shared_ptr<const Caller> caller,
                         Services& services) {
  return DoStream{
      .next = [&services, id, caller](bool last) -> StreamPiece {
        const auto info = services.store.workflow(id);
        const bool there = info && may_read(*caller, *info);
        if (there && !last && !is_at_rest(info->state)) return {};
        return {.reply = workflow_reply(info, id, *caller)};
      },
      .watch = [&services, id](std::function<void()> ready) -> Result<std::shared_ptr<void>> {
        auto watch = std::make_shared<Watch>(services.broker, id, ready);
        // It may have ended after it was read and before it was watched.
        const auto info = services.store.workflow(id);
        if (!info || is_at_rest(info->state)) ready();
        return std::shared_ptr<void>(std::move(watch));
      },
      .wait = wait,
      .pool = Pool::store};
}

// The answer to a change of a workflow.
DoWrite plan_change(const Request& request, Operation operation, WorkflowId id, std::string after) {
  return DoWrite{
      std::move(operation),
      [payload = payload_of_any(*request.caller)](OperationResult& result) -> DoWrite::Answer {
        Reply reply;
        encode_workflow_info(std::get<WorkflowInfo>(result), reply.body, payload);
        return reply;
      },
      audit_of_request(request, fmt::format("workflow/{}", id), std::move(after))};
}

Plan pause(const Request& request, bool paused) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return plan_change(request, PauseWorkflow{*id, paused, request.caller->within(Verb::admin)}, *id,
                     "");
}

Result<StartWorkflow> check_start(const Caller& caller, const Services& services,
                                  WorkflowSpec spec) {
  MS_TRY_ASSIGN(auto start, check_workflow(std::move(spec)));
  start.within = caller.within(Verb::enqueue);
  const auto check = [&](const std::string& field, const StepSpec& step) -> Result<void> {
    for (const auto* job : {&step.job, &step.undo}) {
      if (!*job) continue;
      if (!MS_MUTANT(workflow_starts_anywhere))
        MS_TRY(check_may_make(caller, Verb::enqueue, **job));
      const char* const which = job == &step.job ? "job" : "undo";
      MS_TRY(check_callback(services, **job, fmt::format("{}.{}.", field, which)));
    }
    return {};
  };
  MS_TRY(for_each_step(start.spec, check));
  return start;
}

DoWrite::Answer started_reply(OperationResult& result) {
  const auto& started = std::get<WorkflowStarted>(result);
  Reply reply{.status = started.duplicate ? 200 : 201};
  encode_workflow_started(started, reply.body);
  return reply;
}

std::optional<Audit> audit_of_start(const Request& request, const Services& services,
                                    const WorkflowSpec& spec) {
  if (!services.options.audit_all) return std::nullopt;
  std::string after;
  JsonWriter w(after);
  w.begin_object().key("steps").number(static_cast<std::int64_t>(spec.steps.size()));
  if (!spec.key.empty()) w.key("key").string(spec.key);
  w.end_object();
  return audit_of_request(request, "workflow/" + spec.name, std::move(after));
}

// A number in the query, from `min`. Errors: invalid_argument.
Result<std::int64_t> position(const Request& request, std::string_view name) {
  const std::string* const text = query_value(request, name);
  if (text == nullptr || *text == "0") return 0;
  auto number = parse_id(*text);
  if (number) return number;
  return invalid(std::string(name),
                 fmt::format("{} \"{}\": must be a whole number", name, cut_text(*text, 64)));
}

Result<WorkflowFilter> filter_of(const Request& request) {
  WorkflowFilter filter;
  filter.within = request.caller->within(Verb::read);
  if (const auto* name = query_value(request, "name")) {
    MS_TRY(check_name("name", *name));
    filter.name = *name;
  }
  const auto* const state = query_value(request, "state");
  if (state == nullptr) return filter;
  filter.state = parse_workflow_state(*state);
  if (filter.state) return filter;
  return invalid("state", fmt::format("state \"{}\": must be running, undoing, parked, completed, "
                                      "failed, undone or cancelled",
                                      cut_text(*state, 64)));
}

}  // namespace

Plan plan_start_workflow(const Request& request, Services& services) {
  auto spec = decode_workflow(request.body);
  if (!spec) return error_reply(spec.error());
  TraceHeaders trace = request.trace ? *request.trace : TraceHeaders();
  if (JobTraces* const traces = services.broker.traces(); traces != nullptr && trace.empty())
    trace = traces->starting(spec->name, services.clock.now().wall);
  if (!trace.empty()) add_trace(*spec, trace);
  auto start = check_start(*request.caller, services, std::move(*spec));
  if (!start) return error_reply(start.error());
  auto audit = audit_of_start(request, services, start->spec);
  return DoWrite{std::move(*start), &started_reply, std::move(audit)};
}

Plan plan_list_workflows(const Request& request, Services& services) {
  auto filter = filter_of(request);
  if (!filter) return error_reply(filter.error());
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto before = position(request, "before");
  if (!before) return error_reply(before.error());
  return DoRead{[&services, filter = std::move(*filter), limit = *limit, before = *before,
                 payload = payload_of_any(*request.caller)] {
    const auto page = services.store.workflows(filter, limit, before);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_workflow_page(*page, reply.body, payload);
    return reply;
  }};
}

Plan plan_get_workflow(const Request& request, Services& services) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  const auto wait = parse_wait(request);
  if (!wait) return error_reply(wait.error());
  if (wait->count() > 0) return waited_workflow(*id, *wait, request.caller, services);
  return DoRead{[&services, id = *id, caller = request.caller] {
    return workflow_reply(services.store.workflow(id), id, *caller);
  }};
}

namespace {

// Reads up to `limit`, or to the step whose result reaches kPageBytes.
Result<WorkflowStepPage> read_step_page(const Store& store, WorkflowId id, int after, int limit) {
  WorkflowStepPage out;
  std::size_t bytes = 0;
  for (;;) {
    const int left = limit - static_cast<int>(out.steps.size());
    MS_TRY_ASSIGN(WorkflowStepPage part,
                  store.workflow_steps(id, after, std::min(left, kReadAtOnce)));
    for (WorkflowStep& step : part.steps) {
      bytes += step.result.size() + step.reason.size();
      out.steps.push_back(std::move(step));
      if (bytes < kPageBytes) continue;
      const bool last = &step == &part.steps.back();
      out.next = last ? part.next : out.steps.back().number;
      return out;
    }
    out.next = part.next;
    if (!part.next || std::ssize(out.steps) >= limit) return out;
    after = *part.next;
  }
}

}  // namespace

Plan plan_workflow_steps(const Request& request, Services& services) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto after = position(request, "after");
  if (!after) return error_reply(after.error());
  const int from = static_cast<int>(std::min<std::int64_t>(*after, INT32_MAX));
  return DoRead{[&services, id = *id, limit = *limit, from, caller = request.caller] {
    const auto info = services.store.workflow(id);
    if (!info) return error_reply(info.error());
    if (!may_read(*caller, *info)) return no_workflow(id);
    const auto page = read_step_page(services.store, id, from, limit);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_workflow_steps(*page, reply.body, payload_for(*caller, *info));
    return reply;
  }};
}

Plan plan_signal_workflow(const Request& request, Services&) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto signal = decode_signal_request(*id, request.body);
  if (signal) {
    if (auto good = validate(*signal); !good) signal = good.error();
  }
  if (!signal) return error_reply(signal.error());
  signal->within = request.caller->within(Verb::admin);
  std::string body;
  encode_workflow_signalled(*signal, body);
  return DoWrite{std::move(*signal),
                 [body](OperationResult&) -> DoWrite::Answer { return Reply{.body = body}; },
                 audit_of_request(request, fmt::format("workflow/{}", *id), body)};
}

Plan plan_cancel_workflow(const Request& request, Services&) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto cancel = decode_cancel_workflow_request(*id, request.body);
  if (!cancel) return error_reply(cancel.error());
  cancel->within = request.caller->within(Verb::admin);
  std::string after;
  encode_cancel_workflow_request(*cancel, after);
  return plan_change(request, std::move(*cancel), *id, std::move(after));
}

Plan plan_pause_workflow(const Request& request, Services&) {
  return pause(request, true);
}

Plan plan_resume_workflow(const Request& request, Services&) {
  return pause(request, false);
}

// Step results and the input of a fork are not in the audit: they may contain payloads of jobs.
Plan plan_retry_workflow(const Request& request, Services&) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto retry = decode_retry_workflow_request(*id, request.body);
  if (retry) {
    if (auto good = validate(*retry); !good) retry = good.error();
  }
  if (!retry) return error_reply(retry.error());
  retry->within = request.caller->within(Verb::admin);
  std::string after;
  encode_retry_workflow_request({.id = *id, .step = retry->step, .by_hand = retry->by_hand}, after);
  return plan_change(request, std::move(*retry), *id, std::move(after));
}

Plan plan_fork_workflow(const Request& request, Services&) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto fork = decode_fork_request(*id, request.body);
  if (fork) {
    if (auto good = validate(*fork); !good) fork = good.error();
  }
  if (!fork) return error_reply(fork.error());
  fork->within = request.caller->within(Verb::admin);
  std::string after;
  encode_fork_request({.id = *id, .step = fork->step, .input = {}, .key = fork->key, .within = {}},
                      after);
  return DoWrite{std::move(*fork), &started_reply,
                 audit_of_request(request, fmt::format("workflow/{}", *id), std::move(after))};
}

}  // namespace mainspring::http
