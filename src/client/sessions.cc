// Sessions of a remote server.
#include <fmt/format.h>

#include <algorithm>

#include "api/session_shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

// An answer to a renewal, a state or a release after this time is of no use.
constexpr Duration kSessionCallWithin = std::chrono::seconds(10);

std::string sessions_path(std::string_view queue) {
  return fmt::format("/v1/queues/{}/sessions", percent_encode(queue));
}
std::string session_path(const SessionKey& session, std::string_view verb = "") {
  return fmt::format("{}/{}{}", sessions_path(session.queue), percent_encode(session.key), verb);
}

}  // namespace

// Repeating it is safe: the same worker gets the same answer.
Result<SessionGrant> Client::accept_session(AcceptSession request) {
  Impl::Call call{.method = "POST", .target = sessions_path(request.session.queue) + "/accept"};
  encode_accept_request(
      {.worker = request.worker, .session = request.session, .lease = request.lease}, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  MS_TRY_ASSIGN(ClaimResult accepted, decode_accept_response(body));
  if (accepted.session) return std::move(*accepted.session);
  return Error{.message = fmt::format("accepting session \"{}\": the server answered without it",
                                      request.session.key)};
}

Result<SessionGrant> Client::renew_session(RenewSession request) {
  Impl::Call call{.method = "POST",
                  .target = session_path(request.session, "/renew"),
                  .repeat = Impl::Repeat::no};
  call.answer_within = std::min(impl_->options.read_timeout, kSessionCallWithin);
  encode_renew_session_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_session_renewed(body);
}

Result<void> Client::release_session(ReleaseSession request) {
  Impl::Call call{.method = "POST",
                  .target = session_path(request.session, "/release"),
                  .repeat = Impl::Repeat::no};
  call.answer_within = std::min(impl_->options.read_timeout, kSessionCallWithin);
  encode_release_session_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::put_session_state(PutSessionState request) {
  Impl::Call call{.method = "PUT", .target = session_path(request.session, "/state")};
  encode_put_state_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::resume_session(ResumeSession request) {
  MS_TRY(impl_->run({.method = "POST", .target = session_path(request.session, "/resume")}));
  return {};
}

Result<SessionInfo> Client::get_session(const SessionKey& session) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = session_path(session)}));
  return decode_session(body);
}

Result<SessionPage> Client::sessions(const std::string& queue, const std::string& after,
                                     int limit) {
  std::string target = fmt::format("{}?limit={}", sessions_path(queue), limit);
  if (!after.empty()) target += "&after=" + percent_encode(after);
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = target}));
  MS_TRY_ASSIGN(SessionPage page, decode_sessions(body));
  if (page.next) page.next->queue = queue;
  return page;
}

}  // namespace mainspring
