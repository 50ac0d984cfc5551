// The plans of the dashboard: its page and files, with security headers for browsers.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "dashboard/dashboard.h"
#include "env/digest.h"
#include "http/authenticator.h"
#include "http/gzip.h"
#include "http/parser.h"
#include "http/plans.h"
#include "model/dashboard_session.h"
#include "store/ended_sessions.h"

namespace mainspring::http {
namespace {

// Only files of this server run or load; no eval; no other site can frame the page.
constexpr std::string_view kDashboardPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string etag_of(const DashboardFile& file) {
  return fmt::format("\"{}\"", to_hex(sha256(file.plain)).substr(0, 16));
}

Reply session_reply(const Request& request) {
  const Caller& caller = *request.caller;
  Reply reply;
  JsonWriter w(reply.body);
  w.begin_object().key("who").string(caller.who);
  w.key("everything").boolean(caller.scopes == nullptr);
  if (caller.scopes != nullptr) {
    w.key("scopes").begin_array();
    for (const Scope& scope : caller.scopes->list()) w.string(to_string(scope));
    w.end_array();
  }
  if (caller.expires_at != WallTime::never()) {
    w.key("expires_at").string(format_wall_time(caller.expires_at));
  }
  w.end_object();
  return reply;
}

// See store/ended_sessions.h.
TokenRecord ended_session(Services& services, std::string_view text,
                          const DashboardSession& session) {
  TokenRecord ended;
  ended.digest = sha256(text);
  ended.name = std::string(kEndedSessionPrefix) + to_hex(ended.digest);
  ended.created_by = fmt::format("{:x}", session.token_id);
  ended.expires_at = session.expires_at;
  const WallTime now = services.clock.now().wall;
  const auto tokens = services.store.tokens();
  std::size_t all = 0, of_token = 0;
  for (auto it = tokens->lower_bound(std::string(kEndedSessionPrefix)); it != tokens->end(); ++it) {
    if (!is_ended_session(it->first)) break;
    if (it->second.expires_at <= now) continue;
    ++all;
    if (it->second.created_by == ended.created_by) ++of_token;
  }
  const bool many = all >= kMostEndedSessions || of_token >= kMostEndedOfToken;
  if (!many || tokens->contains(ended.name)) return ended;
  ended.name = all_sessions_of(session.token_id);
  ended.digest = sha256(ended.name);
  ended.expires_at = now + kDashboardSessionLifetime;
  return ended;
}

}  // namespace

std::string session_cookie(std::string_view session, bool secure) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(kDashboardSessionLifetime).count();
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", kSessionCookie,
                     session, session.empty() ? 0 : seconds, secure ? "; Secure" : "");
}

Plan plan_open_session(const Request& request, Services& services) {
  // A local caller needs no session. A session or a job token cannot open another session.
  const bool by_token = presented_token(request.presented.reveal()).has_value();
  const Caller& caller = *request.caller;
  if (!by_token || caller.token_id == 0) return session_reply(request);
  if (services.options.job_token_key.empty()) {
    return error_reply(
        {ErrorCode::unavailable, "this server has no key for sessions; see its log"});
  }
  const WallTime now = services.clock.now().wall, end = now + kDashboardSessionLifetime;
  const DashboardSession session{caller.token_id, std::min(end, caller.expires_at),
                                 static_cast<std::uint64_t>((now - WallTime::from_us(0)).count())};
  Reply reply = session_reply(request);
  add_header(reply, "Cache-Control", "no-store");
  add_header(reply, "Set-Cookie",
             session_cookie(sign_dashboard_session(session, services.options.job_token_key),
                            request.secure));
  return reply;
}

Plan plan_show_session(const Request& request, Services&) {
  return session_reply(request);
}

Plan plan_close_session(const Request& request, Services& services) {
  const auto text = presented_session(request.presented.reveal());
  const auto session = text && !services.options.job_token_key.empty()
                           ? read_dashboard_session(*text, services.options.job_token_key)
                           : std::optional<DashboardSession>();
  Reply reply{.body = R"({"who":"","everything":false})"};
  add_header(reply, "Set-Cookie", session_cookie("", request.secure));
  if (!session) return reply;
  return DoWrite{
      .operation = CreateToken{ended_session(services, *text, *session)},
      .answer = [reply = std::move(reply)](OperationResult&) -> DoWrite::Answer { return reply; }};
}

// Relative, so that it works under any prefix of a proxy.
Plan plan_dashboard_moved(const Request&, Services&) {
  Reply reply{.status = 308, .content_type = "text/plain"};
  add_header(reply, "Location", "ui/");
  return reply;
}

Plan plan_dashboard(const Request& request, Services&) {
  const auto files = dashboard_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const DashboardFile& file) {
    return file.name == request.param;
  });
  if (found == files.end()) {
    return error_reply({ErrorCode::not_found, files.empty()
                                                  ? std::string("this build has no dashboard")
                                                  : fmt::format("the dashboard has no file \"{}\"",
                                                                cut_text(request.param, 200))});
  }
  Reply reply{.content_type = found->content_type};
  const std::string etag = etag_of(*found);
  add_header(reply, "ETag", etag);
  add_header(reply, "Cache-Control", "no-cache");
  add_header(reply, "Vary", "Accept-Encoding");
  add_header(reply, "Content-Security-Policy", kDashboardPolicy);
  add_header(reply, "Referrer-Policy", "no-referrer");
  add_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
  if (header_value(request.headers, "if-none-match") == etag) {
    reply.status = 304;
    return reply;
  }
  const bool packed = accepts_gzip(request.headers);
  if (packed) add_header(reply, "Content-Encoding", "gzip");
  reply.body = packed ? found->gzip : found->plain;
  return reply;
}

}  // namespace mainspring::http
