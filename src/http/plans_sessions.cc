// The plans of sessions.
#include <fmt/format.h>

#include "api/session_shapes.h"
#include "broker/session_calls.h"
#include "http/plans.h"
#include "model/callback.h"

namespace mainspring::http {
namespace {

SessionKey session_of(const Request& request) {
  return {.queue = request.param, .key = request.more_params.front()};
}

// A change by the holder of the session; its answer has no content.
template <class T>
Plan plan_of_holder(Result<T> change, void (*encode)(const T&, std::string&)) {
  if (change) {
    if (auto good = validate(*change); !good) change = good.error();
  }
  if (!change) return error_reply(change.error());
  std::string body;
  encode(*change, body);
  return DoWrite{std::move(*change), [body = std::move(body)](OperationResult&) -> DoWrite::Answer {
                   return Reply{.body = body};
                 }};
}

}  // namespace

Plan plan_accept_session(const Request& request, Services& services) {
  auto accept = decode_accept_request(request.param, request.body);
  if (!accept) return error_reply(accept.error());
  if (auto may = check_worker(*request.caller, services, accept->worker); !may)
    return error_reply(may.error());
  const SessionKey& session = accept->session;
  if (session.key.empty()) {
    auto good = check_name("queue", session.queue);
    if (good) good = check_not_reserved("queue", session.queue);
    if (!good) return error_reply(good.error());
    ClaimRequest claim{.operation = {.worker = std::move(accept->worker),
                                     .queues = {accept_queue(session.queue)},
                                     .lease = accept->lease},
                       .wait = accept->wait};
    auto audit = audit_of_claim(request, services, claim.operation);
    return DoClaim{std::move(claim), std::move(audit), DoClaim::Answer::session};
  }
  AcceptSession held{
      .worker = std::move(accept->worker), .session = session, .lease = accept->lease};
  if (auto good = validate(held); !good) return error_reply(good.error());
  return DoWrite{std::move(held), [](OperationResult& result) -> DoWrite::Answer {
                   ClaimResult accepted;
                   accepted.session = std::get<SessionGrant>(std::move(result));
                   Reply reply;
                   encode_accept_response(accepted, reply.body);
                   return reply;
                 }};
}

Plan plan_renew_session(const Request& request, Services&) {
  auto renew = decode_renew_session_request(session_of(request), request.body);
  if (renew) {
    if (auto good = validate(*renew); !good) renew = good.error();
  }
  if (!renew) return error_reply(renew.error());
  return DoWrite{std::move(*renew), [](OperationResult& result) -> DoWrite::Answer {
                   Reply reply;
                   encode_session_renewed(std::get<SessionGrant>(result), reply.body);
                   return reply;
                 }};
}

Plan plan_release_session(const Request& request, Services&) {
  return plan_of_holder<ReleaseSession>(
      decode_release_session_request(session_of(request), request.body),
      [](const ReleaseSession& release, std::string& out) {
        encode_session_released(release.session, out);
      });
}

Plan plan_put_session_state(const Request& request, Services&) {
  return plan_of_holder<PutSessionState>(
      decode_put_state_request(session_of(request), request.body), &encode_session_state_put);
}

Plan plan_resume_session(const Request& request, Services&) {
  const SessionKey session = session_of(request);
  if (auto good = check_session(session); !good) return error_reply(good.error());
  return DoWrite{
      ResumeSession{session, request.caller->within(Verb::admin)},
      [session](OperationResult&) -> DoWrite::Answer {
        Reply reply;
        encode_session_resumed(session, reply.body);
        return reply;
      },
      audit_of_request(request, fmt::format("session/{}/{}", session.queue, session.key), "")};
}

Plan plan_get_session(const Request& request, Services& services) {
  const SessionKey session = session_of(request);
  if (auto good = check_session(session); !good) return error_reply(good.error());
  return DoRead{[&services, session, payload = payload_for(*request.caller, session.queue)] {
    auto known = services.store.session(session, services.clock.now().instant);
    if (!known) return error_reply(known.error());
    Reply reply;
    encode_session(*known, reply.body, payload);
    return reply;
  }};
}

Plan plan_list_sessions(const Request& request, Services& services) {
  if (auto good = check_name("queue", request.param); !good) return error_reply(good.error());
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto* after = query_value(request, "after");
  SessionKey from{.queue = request.param, .key = after == nullptr ? std::string() : *after};
  return DoRead{[&services, limit = *limit, from = std::move(from)] {
    auto page = services.store.sessions(from.queue, from, limit, services.clock.now().instant);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_sessions(*page, reply.body);
    return reply;
  }};
}

}  // namespace mainspring::http
