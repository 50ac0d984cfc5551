// The shapes of sessions.
#include "api/session_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"

namespace mainspring {
namespace {

bool read_accept_wait(JsonReader& in, AcceptRequest& r) {
  if (in.null()) return true;
  if (!in.duration(r.wait)) return false;
  return r.wait <= kMaxClaimWait ||
         in.fail_value(fmt::format("must be at most {}", format_duration(kMaxClaimWait)));
}

bool read_session_lease(JsonReader& in, Duration& lease) {
  if (in.null()) return true;
  if (!in.duration(lease)) return false;
  return (lease >= kMinLease && lease <= kMaxLease) ||
         in.fail_value(fmt::format("must be {} to {}", format_duration(kMinLease),
                                   format_duration(kMaxLease)));
}

// For accept: null or missing is the next free session; "" is refused, as it would mean the same.
bool read_key(JsonReader& in, AcceptRequest& r) {
  if (in.null()) return true;
  return in.string(r.session.key) &&
         (!r.session.key.empty() ||
          in.fail_here("must not be empty; leave it out to accept any session"));
}

constexpr JsonField<AcceptRequest> kAccept[] = {
    {"worker", &as_string<&AcceptRequest::worker>},
    {"session", &read_key},
    {"wait", &read_accept_wait},
    {"lease", [](JsonReader& in, AcceptRequest& r) { return read_session_lease(in, r.lease); }},
};
constexpr JsonField<RenewSession> kRenewSession[] = {
    {"token", &as_id<&RenewSession::token>},
    {"lease", [](JsonReader& in, RenewSession& r) { return read_session_lease(in, r.lease); }},
};
constexpr JsonField<ReleaseSession> kReleaseSession[] = {{"token", &as_id<&ReleaseSession::token>}};

struct PutState {
  Token token = 0;
  std::optional<std::string> state;
};
constexpr JsonField<PutState> kPutState[] = {
    {"token", &as_id<&PutState::token>},
    {"state", [](JsonReader& in, PutState& p) { return read_session_state(in, p.state); }},
};

constexpr JsonField<SessionGrant> kSessionGrant[] = {
    {"queue", [](JsonReader& in, SessionGrant& g) { return in.string(g.session.queue); }},
    {"key", [](JsonReader& in, SessionGrant& g) { return in.string(g.session.key); }},
    {"token", &as_id<&SessionGrant::token>},
    {"lease_expires_in_ms", &as_milliseconds<&SessionGrant::lease>},
    {"state", &as_optional_raw<&SessionGrant::state>},
    {"held", &as_boolean<&SessionGrant::held>},
};

bool read_stop(JsonReader& in, SessionInfo& session) {
  std::string text;
  if (!in.string(text)) return false;
  for (const SessionStop stop : {SessionStop::none, SessionStop::blocked, SessionStop::parked}) {
    if (text != to_string(stop)) continue;
    session.stop = stop;
    return true;
  }
  return in.fail_here("must be none, blocked or parked");
}

constexpr JsonField<SessionInfo> kSession[] = {
    {"queue", [](JsonReader& in, SessionInfo& s) { return in.string(s.session.queue); }},
    {"key", [](JsonReader& in, SessionInfo& s) { return in.string(s.session.key); }},
    {"jobs", &as_count<&SessionInfo::jobs>},
    {"head", &as_id<&SessionInfo::head>},
    {"stop", &read_stop},
    {"stopped_by", &as_id<&SessionInfo::stopped_by>},
    {"worker", &as_string<&SessionInfo::worker>},
    {"token", &as_id<&SessionInfo::token>},
    {"expires_in_ms", &as_milliseconds<&SessionInfo::expires_in>},
    {"state", &as_optional_raw<&SessionInfo::state>},
    {"state_bytes",
     [](JsonReader& in, SessionInfo& s) {
       std::int64_t bytes = 0;
       if (!in.integer(bytes, std::int64_t{0}, INT64_MAX)) return false;
       s.state_bytes = static_cast<std::size_t>(bytes);
       return true;
     }},
    {"changed_at", &as_time<&SessionInfo::changed_at>},
};
struct SessionsAnswer {
  SessionPage page;
  std::optional<std::string> next;
};
constexpr JsonField<SessionsAnswer> kSessions[] = {
    {"sessions",
     [](JsonReader& in, SessionsAnswer& a) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kSession, a.page.sessions.emplace_back());
       });
     }},
    {"next",
     [](JsonReader& in, SessionsAnswer& a) { return in.null() || in.string(a.next.emplace()); }},
};

Error missing_in_session(std::string_view field) {
  return invalid(std::string(field), fmt::format("{} must be given", field));
}

template <class T, std::size_t N>
Result<T> decode_of_holder(SessionKey session, std::string_view body,
                           const JsonField<T> (&fields)[N]) {
  MS_TRY(check_session_key("session", session.key));
  MS_TRY_ASSIGN(T request, decode_request(body, fields));
  if (request.token == 0) return missing_in_session("token");
  request.session = std::move(session);
  return request;
}

void write_key(JsonWriter& w, const SessionKey& session) {
  w.key("queue").string(session.queue).key("key").string(session.key);
}

enum class States : std::uint8_t { left_out, masked, shown };

void write_session(JsonWriter& w, const SessionInfo& s, States states) {
  w.begin_object();
  write_key(w, s.session);
  w.key("jobs").number(s.jobs);
  if (s.head != 0) w.key("head").number(s.head);
  w.key("stop").string(to_string(s.stop));
  if (s.stopped_by != 0) w.key("stopped_by").number(s.stopped_by);
  if (!s.worker.empty()) {
    w.key("worker").string(s.worker).key("token").number(s.token);
    w.key("expires_in_ms").milliseconds(s.expires_in);
  }
  if (states != States::left_out && !s.state.empty())
    w.key("state").raw(states == States::masked ? "null" : std::string_view(s.state));
  w.key("state_bytes").number(static_cast<std::int64_t>(s.state_bytes));
  w.key("changed_at").time(s.changed_at);
  if (states == States::masked) w.key("masked").boolean(true);
  w.end_object();
}

}  // namespace

void write_grant(JsonWriter& w, const SessionGrant& grant) {
  w.begin_object();
  write_key(w, grant.session);
  w.key("token").number(grant.token);
  w.key("lease_expires_in_ms").milliseconds(grant.lease);
  if (!grant.state.empty()) w.key("state").raw(grant.state);
  if (grant.held) w.key("held").boolean(true);
  w.end_object();
}

bool read_grant(JsonReader& in, std::optional<SessionGrant>& grant) {
  if (in.null()) return true;
  return in.object(kSessionGrant, grant.emplace()) && (grant->token != 0 || in.missing("token"));
}

bool read_session_state(JsonReader& in, std::optional<std::string>& state) {
  state.emplace();
  if (in.null()) return true;
  if (!in.raw(*state)) return false;
  return state->size() <= kMaxSessionStateBytes ||
         in.fail(ErrorCode::too_large,
                 fmt::format("the state of a session has {} bytes: must be at most {}",
                             state->size(), kMaxSessionStateBytes),
                 in.path());
}

Result<void> check_session_state(std::string_view field, const std::string& state) {
  if (state.empty()) return {};
  if (state.size() <= kMaxSessionStateBytes) return check_json(field, state);
  return Error{.code = ErrorCode::too_large,
               .message = fmt::format("{} has {} bytes: must be at most {}", field, state.size(),
                                      kMaxSessionStateBytes),
               .field = std::string(field)};
}

Result<AcceptRequest> decode_accept_request(std::string queue, std::string_view body) {
  MS_TRY_ASSIGN(AcceptRequest request, decode_request(body, kAccept));
  if (request.worker.empty()) return missing_in_session("worker");
  MS_TRY(check_name("worker", request.worker));
  if (!request.session.key.empty()) {
    MS_TRY(check_session_key("session", request.session.key));
    if (request.wait > Duration(0))
      return invalid("wait", "wait: cannot be given with session, which is answered at once");
  }
  request.session.queue = std::move(queue);
  return request;
}

void encode_accept_request(const AcceptRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("worker").string(request.worker);
  if (!request.session.key.empty()) w.key("session").string(request.session.key);
  if (request.wait.count() != 0) w.key("wait").duration(request.wait);
  if (request.lease != kDefaultLease) w.key("lease").duration(request.lease);
  w.end_object();
}

Result<RenewSession> decode_renew_session_request(SessionKey session, std::string_view body) {
  return decode_of_holder(std::move(session), body, kRenewSession);
}

void encode_renew_session_request(const RenewSession& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("token").number(request.token);
  if (request.lease > Duration(0)) w.key("lease").duration(request.lease);
  w.end_object();
}

void encode_session_renewed(const SessionGrant& grant, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_key(w, grant.session);
  w.key("token").number(grant.token);
  w.key("lease_expires_in_ms").milliseconds(grant.lease).end_object();
}

Result<SessionGrant> decode_session_renewed(std::string_view body) {
  MS_TRY_ASSIGN(SessionGrant grant, decode_response(body, kSessionGrant));
  if (grant.token == 0) return bad_response(missing_in_session("token"));
  return grant;
}

Result<ReleaseSession> decode_release_session_request(SessionKey session, std::string_view body) {
  return decode_of_holder(std::move(session), body, kReleaseSession);
}

void encode_release_session_request(const ReleaseSession& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("token").number(request.token).end_object();
}

void encode_session_released(const SessionKey& session, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_key(w, session);
  w.key("released").boolean(true).end_object();
}

Result<PutSessionState> decode_put_state_request(SessionKey session, std::string_view body) {
  MS_TRY(check_session_key("session", session.key));
  MS_TRY_ASSIGN(PutState request, decode_request(body, kPutState));
  if (request.token == 0) return missing_in_session("token");
  if (!request.state) return missing_in_session("state");
  return PutSessionState{std::move(session), request.token, std::move(*request.state)};
}

void encode_put_state_request(const PutSessionState& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("token").number(request.token);
  w.key("state").raw(request.state.empty() ? "null" : std::string_view(request.state));
  w.end_object();
}

void encode_session_state_put(const PutSessionState& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_key(w, request.session);
  w.key("state_bytes").number(static_cast<std::int64_t>(request.state.size())).end_object();
}

void encode_session_resumed(const SessionKey& session, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_key(w, session);
  w.key("stop").string(to_string(SessionStop::none)).end_object();
}

void encode_session(const SessionInfo& session, std::string& out, Payload payload) {
  JsonWriter w(out);
  write_session(w, session, payload == Payload::masked ? States::masked : States::shown);
}

Result<SessionInfo> decode_session(std::string_view body) {
  MS_TRY_ASSIGN(SessionInfo session, decode_response(body, kSession));
  if (session.session.key.empty()) return bad_response(missing_in_session("key"));
  return session;
}

void encode_sessions(const SessionPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("sessions").begin_array();
  for (const SessionInfo& session : page.sessions) write_session(w, session, States::left_out);
  w.end_array().key("next");
  page.next ? w.string(page.next->key) : w.null();
  w.end_object();
}

Result<SessionPage> decode_sessions(std::string_view body) {
  MS_TRY_ASSIGN(SessionsAnswer answer, decode_response(body, kSessions));
  if (answer.next) answer.page.next = SessionKey{.queue = "", .key = std::move(*answer.next)};
  return std::move(answer.page);
}

std::vector<std::string_view> session_request_fields(std::string_view schema) {
  if (schema == "AcceptSessionRequest") return field_names(kAccept);
  if (schema == "RenewSessionRequest") return field_names(kRenewSession);
  if (schema == "ReleaseSessionRequest") return field_names(kReleaseSession);
  if (schema == "SessionStateRequest") return field_names(kPutState);
  return {};
}

}  // namespace mainspring
