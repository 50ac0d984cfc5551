// Triggers of a remote server.
#include <fmt/format.h>

#include "api/schedule_shapes.h"
#include "api/trigger_shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

std::string trigger_path(const std::string& name, std::string_view verb = "") {
  return "/v1/triggers/" + percent_encode(name) + std::string(verb);
}

}  // namespace

// A repetition finds the trigger of the first request. A secret that the server generated would be
// lost with the first answer, so a new trigger without a secret gets one here.
Result<PutTriggerAnswer> Client::put_trigger(const PutTriggerRequest& request) {
  Impl::Call call{.method = "PUT", .target = trigger_path(request.trigger.name)};
  const bool makes = request.trigger.http && request.secret.empty();
  call.repeat = makes ? Impl::Repeat::unseen : Impl::Repeat::yes;
  encode_put_trigger_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_put_trigger_response(body);
}

Result<PutTriggerResult> Client::put_trigger(Trigger trigger, const std::string& secret,
                                             std::optional<bool> paused) {
  MS_TRY_ASSIGN(const PutTriggerAnswer answer,
                put_trigger({.trigger = std::move(trigger), .secret = secret, .paused = paused}));
  return answer.result;
}

Result<void> Client::remove_trigger(const std::string& name) {
  MS_TRY(impl_->run({.method = "DELETE", .target = trigger_path(name)}));
  return {};
}

Result<void> Client::pause_trigger(PauseTrigger request) {
  Impl::Call call{.method = "POST",
                  .target = trigger_path(request.name, request.paused ? "/pause" : "/resume")};
  if (request.paused)
    encode_pause_request({.name = {}, .paused = true, .reason = request.reason}, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

// Without an event id, a repetition could fire twice.
Result<TriggerFired> Client::fire_trigger(const std::string& name,
                                          const FireTriggerRequest& event) {
  Impl::Call call{.method = "POST",
                  .target = trigger_path(name, "/fire"),
                  .repeat = event.event.empty() ? Impl::Repeat::unseen : Impl::Repeat::yes};
  encode_fire_trigger_request(event, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_trigger_fired(body);
}

Result<TriggerInfo> Client::get_trigger(const std::string& name) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = trigger_path(name)}));
  return decode_trigger_info(body);
}

Result<std::vector<TriggerInfo>> Client::triggers(const std::string& after, int limit) {
  return read_named<TriggerInfo>(
      after, limit,
      [&](const std::string& from, int most) {
        return impl_->run({.method = "GET", .target = list_path("/v1/triggers", from, most)});
      },
      &decode_triggers);
}

Result<TriggerEventPage> Client::trigger_events(const std::string& name, int limit,
                                                std::int64_t before) {
  std::string target = trigger_path(name, "/ledger") + fmt::format("?limit={}", limit);
  if (before != 0) target += fmt::format("&before={}", before);
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = target}));
  return decode_trigger_events(body);
}

}  // namespace mainspring
