// Workflows of a remote server.
#include <fmt/format.h>

#include <algorithm>

#include "api/workflow_shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

std::string workflow_path(WorkflowId id, std::string_view verb = "") {
  return fmt::format("/v1/workflows/{}{}", id, verb);
}

}  // namespace

// Without a key, a repetition could start it twice.
Result<WorkflowStarted> Client::start_workflow(WorkflowSpec spec) {
  // With a key, repeated requests start one workflow.
  if (spec.key.empty()) {
    spec.key = "auto-" + impl_->random.hex128();
    spec.key_for = std::chrono::hours(24);  // for repetitions of this call only
  }
  Impl::Call call{.method = "POST", .target = "/v1/workflows"};
  encode_workflow(spec, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_workflow_started(body);
}

Result<void> Client::signal_workflow(SignalWorkflow request) {
  // Likewise: repeated signals with the same id count once.
  if (request.signal_id.empty()) request.signal_id = "auto-" + impl_->random.hex128();
  Impl::Call call{.method = "POST", .target = workflow_path(request.id, "/signal")};
  encode_signal_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<WorkflowInfo> Client::cancel_workflow(CancelWorkflow request) {
  Impl::Call call{.method = "POST", .target = workflow_path(request.id, "/cancel")};
  encode_cancel_workflow_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_workflow_info(body);
}

Result<WorkflowInfo> Client::pause_workflow(PauseWorkflow request) {
  MS_TRY_ASSIGN(
      const std::string body,
      impl_->run({.method = "POST",
                  .target = workflow_path(request.id, request.paused ? "/pause" : "/resume")}));
  return decode_workflow_info(body);
}

// A repetition could restart a step that has failed again in the meantime.
Result<WorkflowInfo> Client::retry_workflow(RetryWorkflow request) {
  Impl::Call call{.method = "POST",
                  .target = workflow_path(request.id, "/retry"),
                  .repeat = Impl::Repeat::unseen};
  encode_retry_workflow_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_workflow_info(body);
}

// Without a key, a repetition could fork it twice.
Result<WorkflowStarted> Client::fork_workflow(ForkWorkflow request) {
  Impl::Call call{.method = "POST",
                  .target = workflow_path(request.id, "/fork"),
                  .repeat = request.key.empty() ? Impl::Repeat::unseen : Impl::Repeat::yes};
  encode_fork_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_workflow_started(body);
}

Result<WorkflowInfo> Client::get_workflow(WorkflowId id) {
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = workflow_path(id)}));
  return decode_workflow_info(body);
}

Result<WorkflowInfo> Client::wait_workflow(WorkflowId id, Duration wait, std::stop_token stop) {
  const Instant end = impl_->clock.now().instant + wait;
  for (;;) {
    const Duration left = std::max(end - impl_->clock.now().instant, Duration(0));
    const Duration slice = std::min(left, kWaitSlice);
    Impl::Call call{.method = "GET",
                    .target = fmt::format("{}?wait={}", workflow_path(id), format_duration(slice))};
    call.stop = stop;
    call.answer_within = impl_->options.read_timeout + slice;
    const Result<std::string> body = impl_->run(call);
    if (!body && stop.stop_requested()) return get_workflow(id);
    if (!body) return body.error();
    MS_TRY_ASSIGN(WorkflowInfo info, decode_workflow_info(*body));
    if (is_at_rest(info.state) || stop.stop_requested() || left <= kWaitSlice) return info;
  }
}

Result<WorkflowPage> Client::workflows(const WorkflowFilter& filter, int limit, WorkflowId before) {
  std::string target = fmt::format("/v1/workflows?limit={}", limit);
  if (!filter.name.empty()) target += "&name=" + percent_encode(filter.name);
  if (filter.state) target += fmt::format("&state={}", to_string(*filter.state));
  if (before != 0) target += fmt::format("&before={}", before);
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = target}));
  return decode_workflow_page(body);
}

Result<WorkflowStepPage> Client::workflow_steps(WorkflowId id, int after, int limit) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET",
                            .target = fmt::format("{}?after={}&limit={}",
                                                  workflow_path(id, "/steps"), after, limit)}));
  return decode_workflow_steps(body);
}

}  // namespace mainspring
