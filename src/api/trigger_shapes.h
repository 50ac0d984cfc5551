// Shapes of triggers, their state and their ledger. See shapes.h for the contract of encode_… and
// decode_….
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/follow_ups.h"
#include "api/name_page.h"
#include "api/payload.h"
#include "store/trigger_operations.h"

namespace mainspring {

// The definition, as stores keep it too:
//   {"name", "http": {"auth", "event_id"?, "rate"} |
//    "folder": {"path", "pattern", "stable", "node"?} |
//    "ended": {"queue"?, "kind"?, "on"?: ["completed", "cancelled", "dead"]}, "job": {…}}
void encode_trigger(const Trigger& trigger, std::string& out);
Result<Trigger> decode_trigger(std::string_view body);

// PUT /v1/triggers/{name}: the definition, "secret"? and "paused"?. A name in the body must be that
// of the path. The secret is the text that callers present.
struct PutTriggerRequest {
  Trigger trigger;
  std::string secret;
  std::optional<bool> paused;
};
Result<PutTriggerRequest> decode_put_trigger_request(std::string name, std::string_view body);
void encode_put_trigger_request(const PutTriggerRequest& request, std::string& out);

// The definition and {"version", "paused", "paused_reason"?, "fired", "refused"?, "last_fired"?,
// "last_job"?, "last_event"?, "created_at", "updated_at"}. Never the secret. Masked: null for the
// job's args and headers.
void encode_trigger_info(const TriggerInfo& info, std::string& out,
                         Payload payload = Payload::shown);
// The same with "outcome" before it and, if `secret` is not "", the secret.
void encode_put_trigger_response(const TriggerInfo& info, const PutTriggerResult& result,
                                 std::string_view secret, std::string& out,
                                 Payload payload = Payload::shown);
struct PutTriggerAnswer {
  TriggerInfo info;
  PutTriggerResult result;
  std::string secret;  // the generated secret; "" = none
};
Result<PutTriggerAnswer> decode_put_trigger_response(std::string_view body);
Result<TriggerInfo> decode_trigger_info(std::string_view body);
// {"triggers": […], "next": name | null}: the last name if there may be `more`.
// `payloads`: the queues whose payloads are shown.
void encode_triggers(std::span<const TriggerInfo> triggers, bool more, std::string& out,
                     const Within& payloads = {});
Result<NamePage<TriggerInfo>> decode_triggers(std::string_view body);
// {"name", "removed": true}
void encode_trigger_removed(std::string_view name, std::string& out);

// {"event"?, "body"?, "headers"?, "query"?, "file"?, "job"?}: the parts of an event; an empty body
// has none.
struct FireTriggerRequest {
  std::string event;
  std::string body = "null", headers = "{}", query = "{}", file = "null", job = "null";  // JSON
};
Result<FireTriggerRequest> decode_fire_trigger_request(std::string_view body);
void encode_fire_trigger_request(const FireTriggerRequest& request, std::string& out);
// {"job": id | null, "duplicate"}
void encode_trigger_fired(const TriggerFired& fired, std::string& out);
Result<TriggerFired> decode_trigger_fired(std::string_view body);

// {"events": [{"seq", "event"?, "fired_at", "made_at"?, "job": id | null, "reason"?}],
//  "next": seq | null}
void encode_trigger_events(const TriggerEventPage& page, std::string& out);
Result<TriggerEventPage> decode_trigger_events(std::string_view body);

// What stores keep of a trigger in addition to its definition and secret.
std::string encode_trigger_state(const TriggerInfo& info, std::int64_t next_seq);
struct TriggerState {
  TriggerInfo info;  // without trigger and secret
  std::int64_t next_seq = 1;
};
Result<TriggerState> decode_trigger_state(std::string_view text);

// The value of "job" for a trigger on ends: {"id", "queue", "kind", "outcome", "attempt", "result",
// "error", "reason", "description"}; missing ones are null.
std::string encode_ended_job(const EndedJob& job);

// A trigger in audit records: the definition, without possible secrets.
std::string trigger_image(const Trigger& trigger);

}  // namespace mainspring
