// Sessions: input checks, and the broker's calls.
#include "broker/session_calls.h"

#include <fmt/format.h>

#include "api/json.h"
#include "api/session_shapes.h"
#include "broker/sync_call.h"
#include "model/callback.h"

namespace mainspring {
namespace {

Result<void> check_lease(Duration lease) {
  if (lease >= kMinLease && lease <= kMaxLease) return {};
  return invalid("lease", fmt::format("lease {}: must be {} to {}", format_duration(lease),
                                      format_duration(kMinLease), format_duration(kMaxLease)));
}

Result<void> check_session_token(Token token) {
  if (token > 0) return {};
  return invalid("token", fmt::format("token {}: must be that of the holder", token));
}

}  // namespace

Result<void> check_session(const SessionKey& session) {
  MS_TRY(check_name("queue", session.queue));
  MS_TRY(check_not_reserved("queue", session.queue));
  MS_TRY(check_session_key("session", session.key));
  if (is_utf8(session.key)) return {};
  return invalid("session", "session: must be UTF-8");
}

Result<void> validate(const AcceptSession& request) {
  MS_TRY(check_name("worker", request.worker));
  MS_TRY(check_session(request.session));
  return check_lease(request.lease);
}

Result<void> validate(const RenewSession& request) {
  MS_TRY(check_session(request.session));
  MS_TRY(check_session_token(request.token));
  return request.lease == Duration(0) ? Result<void>() : check_lease(request.lease);
}

Result<void> validate(const ReleaseSession& request) {
  MS_TRY(check_session(request.session));
  return check_session_token(request.token);
}

Result<void> validate(const PutSessionState& request) {
  MS_TRY(check_session(request.session));
  MS_TRY(check_session_token(request.token));
  return check_session_state("state", request.state);
}

Result<SessionGrant> Broker::accept_session(AcceptSession request) {
  MS_TRY(validate(request));
  return call<SessionGrant>(std::move(request));
}

Result<SessionGrant> Broker::renew_session(RenewSession request) {
  MS_TRY(validate(request));
  return call<SessionGrant>(std::move(request));
}

Result<void> Broker::release_session(ReleaseSession request) {
  MS_TRY(validate(request));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::put_session_state(PutSessionState request) {
  MS_TRY(validate(request));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::resume_session(ResumeSession request) {
  MS_TRY(check_session(request.session));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<SessionInfo> Broker::get_session(const SessionKey& session) {
  MS_TRY(check_session(session));
  return store_.session(session, clock_.now().instant);
}

Result<SessionPage> Broker::sessions(const std::string& queue, const std::string& after,
                                     int limit) {
  MS_TRY(check_name("queue", queue));
  return store_.sessions(queue, {queue, after}, limit, clock_.now().instant);
}

}  // namespace mainspring
