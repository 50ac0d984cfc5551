// Shapes of sessions. See shapes.h for the contract of encode_… and decode_….
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/payload.h"
#include "store/operations.h"

namespace mainspring {

// POST /v1/queues/{name}/sessions/accept: {"worker", "session"?: KEY, "wait"?, "lease"?}
struct AcceptRequest {
  std::string worker;
  SessionKey session;  // key "" = the next free one that has an available job
  Duration lease = kDefaultLease;
  Duration wait{0};  // how long it may wait, without a key; at most kMaxClaimWait
};
// Errors beside those of the shape: those of check_session_key.
Result<AcceptRequest> decode_accept_request(std::string queue, std::string_view body);
void encode_accept_request(const AcceptRequest& request, std::string& out);
// {"session": {"queue", "key", "token", "lease_expires_in_ms", "state"?, "held"?} | null,
// "jobs": […], "cancel"?: [ids]}
void encode_accept_response(const ClaimResult& result, std::string& out);
Result<ClaimResult> decode_accept_response(std::string_view body);

// POST …/{key}/renew: {"token", "lease"?}. Without lease: as long as before.
Result<RenewSession> decode_renew_session_request(SessionKey session, std::string_view body);
void encode_renew_session_request(const RenewSession& request, std::string& out);
// {"queue", "key", "token", "lease_expires_in_ms"}: the holder already has the state.
void encode_session_renewed(const SessionGrant& grant, std::string& out);
Result<SessionGrant> decode_session_renewed(std::string_view body);

// POST …/{key}/release: {"token"}
Result<ReleaseSession> decode_release_session_request(SessionKey session, std::string_view body);
void encode_release_session_request(const ReleaseSession& request, std::string& out);
// {"queue", "key", "released": true}
void encode_session_released(const SessionKey& session, std::string& out);

// PUT …/{key}/state: {"token", "state"}; null removes it.
Result<PutSessionState> decode_put_state_request(SessionKey session, std::string_view body);
void encode_put_state_request(const PutSessionState& request, std::string& out);
// {"queue", "key", "state_bytes"}
void encode_session_state_put(const PutSessionState& request, std::string& out);

// {"queue", "key", "stop": "none"}
void encode_session_resumed(const SessionKey& session, std::string& out);

// {"queue", "key", "jobs", "head"?, "stop", "stopped_by"?, "worker"?, "token"?, "expires_in_ms"?,
// "state"?, "state_bytes", "changed_at"}. Of a state that is not shown null.
void encode_session(const SessionInfo& session, std::string& out, Payload payload = Payload::shown);
Result<SessionInfo> decode_session(std::string_view body);
// {"sessions": […], "next": key | null}; without their states.
void encode_sessions(const SessionPage& page, std::string& out);
Result<SessionPage> decode_sessions(std::string_view body);  // the queue of `next` is left empty

// JSON up to kMaxSessionStateBytes; "" removes it. Errors: invalid_argument, too_large.
Result<void> check_session_state(std::string_view field, const std::string& state);

// -- for the shapes of a worker's calls

void write_grant(JsonWriter& w, const SessionGrant& grant);
bool read_grant(JsonReader& in, std::optional<SessionGrant>& grant);  // null = none
// null removes it: "". Errors beside those of a value: too_large.
bool read_session_state(JsonReader& in, std::optional<std::string>& state);

}  // namespace mainspring
