// The plans of triggers, and of the hooks that fire them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/json.h"
#include "api/schedule_shapes.h"
#include "api/trigger_shapes.h"
#include "broker/broker.h"
#include "broker/trigger_calls.h"
#include "callbacks/signature.h"
#include "http/parser.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

constexpr std::string_view kEventId = "headers.webhook-id";
constexpr int kPausedRetryMs = 60'000;

Error no_such(const std::string& name) {
  return {ErrorCode::not_found, fmt::format("trigger {}: there is no such trigger", name)};
}

Result<TriggerInfo> find_trigger(const Services& services, const std::string& name,
                                 const Within& within) {
  MS_TRY_ASSIGN(TriggerInfo info, services.store.trigger(name));
  if (within.has(info.trigger.job.queue)) return info;
  return no_such(name);
}

Reply trigger_reply(const Services& services, const std::string& name, const Caller& caller,
                    Verb verb) {
  const auto info = find_trigger(services, name, caller.within(verb));
  if (!info) return error_reply(info.error());
  Reply reply;
  encode_trigger_info(*info, reply.body, payload_for(caller, info->trigger.job.queue));
  return reply;
}

// The result of an ended job is passed to the jobs that a trigger on its end creates.
Result<void> check_may_hear(const Caller& caller, const Trigger& trigger) {
  if (!trigger.ended) return {};
  if (trigger.ended->queue.empty()) return check_may_all(caller, Verb::read_payload);
  return check_may(caller, Verb::read_payload, trigger.ended->queue);
}

struct Put {
  PutTrigger operation;
  std::string made;  // the generated secret
};

Result<Put> put_trigger_of(const Request& request, Services& services) {
  MS_TRY(check_name("name", request.param));
  MS_TRY_ASSIGN(PutTriggerRequest put, decode_put_trigger_request(request.param, request.body));
  MS_TRY(check_trigger(put.trigger));
  MS_TRY(check_watch_roots(put.trigger, services.broker.watch_roots()));
  MS_TRY(check_may_make(*request.caller, Verb::schedule, put.trigger.job));
  MS_TRY(check_may_hear(*request.caller, put.trigger));
  MS_TRY(check_callback(services, put.trigger.job, "job."));
  Put out{.operation = {.trigger = std::move(put.trigger), .paused = put.paused}, .made = {}};
  out.operation.within = request.caller->within(Verb::schedule);
  const auto& http = out.operation.trigger.http;
  if (!http) {
    if (put.secret.empty()) return out;
    return invalid("secret", "secret: only a trigger with http has one");
  }
  if (put.secret.empty()) {
    put.secret = out.made = signing_key_text(make_signing_key(services.random)).reveal();
    out.operation.made = true;
  } else if (http->auth == HookAuth::signature) {
    if (auto key = parse_signing_key(put.secret); !key)
      return invalid("secret", "secret: " + key.error().message);
  }
  MS_TRY_ASSIGN(out.operation.secret, kept_secret(*http, put.secret));
  return out;
}

Reply put_trigger_reply(const Services& services, const std::string& name,
                        const PutTriggerResult& result, const std::string& secret,
                        const Caller& caller) {
  const auto info = services.store.trigger(name);
  if (!info) return error_reply(info.error());
  Reply reply{.status = result.outcome == PutOutcome::created ? 201 : 200};
  encode_put_trigger_response(*info, result, result.secret_taken ? secret : "", reply.body,
                              payload_for(caller, info->trigger.job.queue));
  return reply;
}

Plan change_trigger(const Request& request, Services& services, PauseTrigger operation,
                    std::string after) {
  operation.within = request.caller->within(Verb::schedule);
  return DoWrite{std::move(operation),
                 [&services, name = request.param,
                  caller = request.caller](OperationResult&) -> DoWrite::Answer {
                   return DoRead{[&services, name, caller] {
                     return trigger_reply(services, name, *caller, Verb::schedule);
                   }};
                 },
                 audit_of_request(request, "trigger/" + request.param, std::move(after))};
}

Reply fired_reply(const Result<TriggerFired>& fired) {
  if (!fired) return error_reply(fired.error());
  Reply reply{.status = fired->duplicate ? 200 : 201};
  encode_trigger_fired(*fired, reply.body);
  return reply;
}

// -- the event of a request to a hook -------------------------------------------------------------

// An object of the first values, by lower-case names. Omits credentials.
std::string json_of_headers(const HeaderFields& headers) {
  std::string out = "{";
  std::set<std::string> seen;
  for (const auto& [given, value] : headers) {
    std::string name;
    for (const char c : given) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    if (name == "cookie" || name == "authorization" || !seen.insert(name).second) continue;
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    append_json_string(out, value);
  }
  return out + '}';
}

std::string json_of_query(std::string_view raw) {
  std::string out = "{";
  std::set<std::string> seen;
  while (!raw.empty()) {
    const std::string_view pair = raw.substr(0, raw.find('&'));
    raw.remove_prefix(std::min(raw.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    const auto name = percent_decode(pair.substr(0, equals), Plus::space);
    const auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1),
        Plus::space);
    if (!name || !value || name->empty() || !seen.insert(*name).second) continue;
    if (out.size() > 1) out += ',';
    append_json_string(out, *name);
    out += ':';
    append_json_string(out, *value);
  }
  return out + '}';
}

// JSON unchanged; other text as a string; an empty body as null.
Result<std::string> json_of_body(std::string_view body, const HeaderFields& headers) {
  if (body.empty()) return std::string("null");
  if (header_value(headers, "Content-Type").starts_with(kJson) || !is_utf8(body)) {
    const auto good = check_json("body", body);
    if (good) return std::string(body);
    return invalid(good.error().field, "must be JSON, or text in UTF-8: " + good.error().message);
  }
  return json_or_text("body", body);
}

Result<FireTriggerRequest> event_of(const Request& request, const Trigger& trigger,
                                    std::string_view body) {
  FireTriggerRequest event;
  MS_TRY_ASSIGN(event.body, json_of_body(body, request.headers));
  event.headers = json_of_headers(request.headers);
  event.query = json_of_query(request.raw_query);
  const std::string& id = trigger.http->event_id;
  event.event = event_id_of(id.empty() ? kEventId : std::string_view(id), event);
  return event;
}

Result<TriggerFired> call_hook(const Request& request, Services& services) {
  const Now now = services.clock.now();
  const std::string_view body =
      request.upload == nullptr ? std::string_view() : std::string_view(request.upload->bytes);
  auto info = services.store.trigger(request.param);
  if (info && !info->trigger.http) info = no_such(request.param);
  if (!info) {
    if (info.error().code != ErrorCode::not_found) return info.error();
    return services.hooks.refuse(request.caller->from, now.instant);
  }
  const HookCall call{.peer = request.caller->from,
                      .authorization = request.presented.reveal(),
                      .id = header_value(request.headers, "webhook-id"),
                      .timestamp = header_value(request.headers, "webhook-timestamp"),
                      .signature = header_value(request.headers, "webhook-signature"),
                      .body = body};
  MS_TRY(services.hooks.admit(info->trigger, info->secret, call, now));
  MS_TRY_ASSIGN(const FireTriggerRequest event, event_of(request, info->trigger, body));
  auto fired = fire_event(services.broker, request.param, event, {});
  if (fired || fired.error().code != ErrorCode::conflict) return fired;
  // A retryable error, so that the caller tries again.
  return Error{.code = ErrorCode::unavailable,
               .message = fired.error().message,
               .retry_after_ms = kPausedRetryMs};
}

}  // namespace

Plan plan_put_trigger(const Request& request, Services& services) {
  auto put = put_trigger_of(request, services);
  if (!put) return error_reply(put.error());
  std::string image = trigger_image(put->operation.trigger);
  return DoWrite{
      std::move(put->operation),
      [&services, name = request.param, made = put->made,
       caller = request.caller](OperationResult& result) -> DoWrite::Answer {
        return DoRead{[&services, name, made, caller, done = std::get<PutTriggerResult>(result)] {
          return put_trigger_reply(services, name, done, made, *caller);
        }};
      },
      audit_of_request(request, "trigger/" + request.param, std::move(image))};
}

Plan plan_get_trigger(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoRead{[&services, name = request.param, caller = request.caller] {
    return trigger_reply(services, name, *caller, Verb::read);
  }};
}

Plan plan_list_triggers(const Request& request, Services& services) {
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto* after = query_value(request, "after");
  return DoRead{[&services, limit = *limit, after = after == nullptr ? std::string() : *after,
                 caller = request.caller] {
    const auto triggers = read_shown<TriggerInfo>(
        after, limit,
        [&](const std::string& from, int most) { return services.store.triggers(from, most); },
        [&](const TriggerInfo& one) { return caller->may(Verb::read, one.trigger.job.queue); },
        [](const TriggerInfo& one) { return one.trigger.name; },
        [](const TriggerInfo& one) { return payload_bytes(one.trigger.job); });
    if (!triggers) return error_reply(triggers.error());
    Reply reply;
    encode_triggers(triggers->items, triggers->more, reply.body,
                    caller->within(Verb::read_payload));
    return reply;
  }};
}

Plan plan_remove_trigger(const Request& request, Services&) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoWrite{
      RemoveTrigger{.name = request.param, .within = request.caller->within(Verb::schedule)},
      [name = request.param](OperationResult&) -> DoWrite::Answer {
        Reply reply;
        encode_trigger_removed(name, reply.body);
        return reply;
      },
      audit_of_request(request, "trigger/" + request.param, "")};
}

Plan plan_pause_trigger(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto pause = decode_pause_request(request.param, request.body);
  if (!pause) return error_reply(pause.error());
  return change_trigger(
      request, services,
      PauseTrigger{.name = request.param, .paused = true, .reason = pause->reason},
      R"({"paused":true})");
}

Plan plan_resume_trigger(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return change_trigger(request, services, PauseTrigger{.name = request.param, .paused = false},
                        R"({"paused":false})");
}

Plan plan_fire_trigger(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto event = decode_fire_trigger_request(request.body);
  if (!event) return error_reply(event.error());
  return DoRead{[&services, name = request.param, event = std::move(*event),
                 within = request.caller->within(Verb::schedule),
                 audit = audit_of_request(request, "trigger/" + request.param, "")]() mutable {
    const auto fired = fire_event(services.broker, name, event, {.within = within});
    if (fired) {
      encode_trigger_fired(*fired, audit.after);
      if (auto kept = append_record(services, std::move(audit)); !kept)
        return error_reply(kept.error());
    }
    return fired_reply(fired);
  }};
}

Plan plan_trigger_events(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  std::int64_t before = 0;
  if (const auto* text = query_value(request, "before")) {
    const auto number = parse_id(*text);
    if (!number) return error_reply(invalid("before", "before: must be a whole number from 1"));
    before = *number;
  }
  return DoRead{[&services, name = request.param, limit = *limit, before,
                 within = request.caller->within(Verb::read)] {
    if (auto there = find_trigger(services, name, within); !there)
      return error_reply(there.error());
    const auto page = services.store.trigger_events(name, limit, before);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_trigger_events(*page, reply.body);
    return reply;
  }};
}

// On a reader thread, from the read of the secret on.
Plan plan_hook(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  if (request.upload != nullptr && request.upload->bytes.size() > kMaxHookBodyBytes) {
    return error_reply(
        {ErrorCode::too_large, fmt::format("the body has {} bytes: must be at most {}",
                                           request.upload->bytes.size(), kMaxHookBodyBytes)});
  }
  return DoRead{[&services, request] { return fired_reply(call_hook(request, services)); }};
}

}  // namespace mainspring::http
