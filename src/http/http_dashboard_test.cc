// The dashboard's files and its session: responses to a browser, and rights of a cookie.
#include "dashboard/dashboard.h"
#include "http/exchange.h"
#include "http/http_test_support.h"
#include "http/parser.h"
#include "model/dashboard_session.h"
#include "model/token_text.h"
#include "store/ended_sessions.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

struct DashboardServer : TestServer {
  explicit DashboardServer(bool require_token = true) : TestServer(options_of(require_token)) {}
  static HttpOptions options_of(bool require_token) {
    HttpOptions options;
    options.require_token = require_token;
    options.job_token_key = Secret(std::string(32, 'k'));
    return options;
  }
};

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// What a browser sends: the pair of a Set-Cookie header.
std::string cookie_line(const Answer& answer) {
  const std::string set = answer.headers.at("Set-Cookie");
  return "Cookie: theme=dark; " + set.substr(0, set.find(';')) + "\r\n";
}

constexpr const char* kSameOrigin = "Sec-Fetch-Site: same-origin\r\n";

}  // namespace

TEST_CASE("the dashboard is public, with headers that keep other sites and scripts out") {
  if (dashboard_files().empty()) return;
  DashboardServer server;
  Peer peer(server);
  const Answer moved = peer.call("GET", "/ui");
  CHECK(moved.status == 308);
  CHECK(moved.headers.at("Location") == "ui/");  // relative: correct under any prefix of a proxy
  const Answer page = peer.call("GET", "/ui/");
  CHECK(page.status == 200);
  CHECK(page.headers.at("Content-Type") == "text/html; charset=utf-8");
  CHECK(holds(page.body, "<script type=\"module\" src=\"app.js\""));
  const std::string policy = page.headers.at("Content-Security-Policy");
  CHECK(holds(policy, "default-src 'none'"));
  CHECK(holds(policy, "frame-ancestors 'none'"));
  CHECK(holds(policy, "require-trusted-types-for 'script'"));
  CHECK_FALSE(holds(policy, "unsafe"));
  CHECK(page.headers.at("Referrer-Policy") == "no-referrer");

  const Answer script = peer.call("GET", "/ui/app.js");
  CHECK(script.body == dashboard_files()[1].plain);
  const Answer packed = peer.call("GET", "/ui/app.js", "", "Accept-Encoding: br, gzip\r\n");
  CHECK(packed.headers.at("Content-Encoding") == "gzip");
  CHECK(packed.body == dashboard_files()[1].gzip);
  const Answer refused = peer.call("GET", "/ui/app.js", "", "Accept-Encoding: gzip;q=0\r\n");
  CHECK(refused.body == script.body);
  const Answer same =
      peer.call("GET", "/ui/app.js", "", "If-None-Match: " + script.headers.at("ETag") + "\r\n");
  CHECK(same.status == 304);
  CHECK(peer.call("GET", "/ui/nothing.js").status == 404);
}

TEST_CASE("a token becomes a cookie that scripts cannot read and other sites cannot use") {
  DashboardServer server;
  const std::string token = new_token(server, "read admin=mails enqueue=mails", "anna");
  Peer peer(server);
  CHECK(peer.call("POST", "/v1/session").status == 401);
  const Answer opened =
      peer.call("POST", "/v1/session", "", "Authorization: Bearer " + token + "\r\n");
  CHECK(opened.status == 200);
  CHECK(holds(opened.body, R"("who":"anna")"));
  CHECK_FALSE(holds(opened.body, token));
  const std::string set = opened.headers.at("Set-Cookie");
  CHECK(holds(set, "; HttpOnly"));
  CHECK(holds(set, "; SameSite=Strict"));
  CHECK(holds(set, "; Max-Age=43200"));
  const std::string cookie = cookie_line(opened);

  CHECK(peer.call("GET", "/v1/queues", "", cookie).status == 200);
  CHECK(holds(peer.call("GET", "/v1/session", "", cookie).body, R"("scopes":["read")"));
  const std::string job = R"({"queue":"mails","kind":"k"})";
  CHECK(peer.call("POST", "/v1/jobs", job, cookie).status == 403);
  for (const char* site : {"cross-site", "same-site", "none", "Same-Origin"}) {
    CAPTURE(site);
    const std::string from = std::string("Sec-Fetch-Site: ") + site + "\r\n";
    CHECK(peer.call("POST", "/v1/jobs", job, cookie + from).status == 403);
  }
  CHECK(server.store->queues()->empty());
  CHECK(peer.call("POST", "/v1/jobs", job, cookie + kSameOrigin).status == 201);
  // The same scopes as the token.
  const std::string other = R"({"queue":"photos","kind":"k"})";
  CHECK(peer.call("POST", "/v1/jobs", other, cookie + kSameOrigin).status == 403);
  CHECK(peer.call("GET", "/v1/tokens", "", cookie).status == 403);

  const Answer closed = peer.call("DELETE", "/v1/session", "", cookie + kSameOrigin);
  CHECK(closed.status == 200);
  CHECK(holds(closed.headers.at("Set-Cookie"), "Max-Age=0"));
}

TEST_CASE("the root leads to the dashboard, also under a proxy's prefix") {
  DashboardServer server;
  const Answer moved = Peer(server).call("GET", "/");
  CHECK(moved.status == 308);
  CHECK(moved.headers.at("Location") == "ui/");
}

TEST_CASE("the session cookie is not the token, and cannot open another session") {
  DashboardServer server;
  const std::string token = new_token(server, "admin", "anna");
  Peer peer(server);
  const std::string bearer = "Authorization: Bearer " + token + "\r\n";
  const std::string cookie = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  CHECK_FALSE(holds(cookie, token));
  CHECK(holds(cookie, "mainspring_session=mss_"));
  const Answer again = peer.call("POST", "/v1/session", "", cookie + kSameOrigin);
  CHECK(again.status == 200);
  CHECK(again.headers.count("Set-Cookie") == 0);
  // A token in the cookie is refused, and so is a session in place of a token.
  CHECK(peer.call("GET", "/v1/queues", "", "Cookie: mainspring_session=" + token + "\r\n").status ==
        401);
  const std::string value = cookie.substr(cookie.find("mss_"));
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization: Bearer " + value).status == 401);
}

TEST_CASE("signing out ends the session, and only a cookie carries one") {
  DashboardServer server;
  const std::string token = new_token(server, "admin read", "anna");
  Peer peer(server);
  const std::string bearer = "Authorization: Bearer " + token + "\r\n";
  const std::string cookie = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  const std::string value = cookie.substr(cookie.find("mss_"));
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization: Session " + value).status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", cookie).status == 200);
  // A token that is made in a session lives as long as it is asked to.
  const Answer made =
      peer.call("POST", "/v1/tokens", R"({"name":"week","scopes":["read"],"expires_in":"7d"})",
                cookie + kSameOrigin);
  CHECK(made.status == 201);
  server.clock.advance(24h);
  const std::size_t at = made.body.find("mst_");
  const std::string week = made.body.substr(at, made.body.find('"', at) - at);
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization: Bearer " + week + "\r\n").status == 200);
  const std::string later = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  CHECK(peer.call("GET", "/v1/queues", "", later).status == 200);
  CHECK(peer.call("DELETE", "/v1/session", "", later + kSameOrigin).status == 200);
  CHECK(peer.call("GET", "/v1/queues", "", later).status == 401);
  const auto list = [&] { return peer.call("GET", "/v1/tokens", "", bearer).body; };
  CHECK_FALSE(holds(list(), "session"));
  // The next one removes the record of the expired one.
  const auto ended = [&] {
    const auto tokens = server.store->tokens();
    return std::count_if(tokens->begin(), tokens->end(),
                         [](const auto& entry) { return is_ended_session(entry.first); });
  };
  CHECK(ended() == 1);
  server.clock.advance(13h);
  const std::string third = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  for (int i = 0; i < 2; ++i)
    CHECK(peer.call("DELETE", "/v1/session", "", third + kSameOrigin).status == 200);
  CHECK(ended() == 1);
}

TEST_CASE("a thousand sign-outs of one token undo none, and end no session of another token") {
  DashboardServer server;
  Peer peer(server);
  const auto sign_in = [&](const std::string& token) {
    server.clock.advance(1ms);
    return cookie_line(
        peer.call("POST", "/v1/session", "", "Authorization: Bearer " + token + "\r\n"));
  };
  const std::string anna = new_token(server, "admin read", "anna");
  const std::string ben = new_token(server, "read", "ben");
  const std::string of_ben = sign_in(ben), kept = sign_in(anna);
  std::vector<std::string> ended;
  const auto sign_out = [&](const std::string& cookie) {
    REQUIRE(peer.call("DELETE", "/v1/session", "", cookie + kSameOrigin).status == 200);
    ended.push_back(cookie);
  };
  for (std::size_t i = 0; i < kMostEndedOfToken; ++i) sign_out(sign_in(anna));
  CHECK(peer.call("GET", "/v1/queues", "", kept).status == 200);
  sign_out(sign_in(anna));  // one more: all sessions of the token end, with one record
  CHECK(peer.call("GET", "/v1/queues", "", kept).status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", ended.front()).status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", ended.back()).status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", of_ben).status == 200);
  CHECK(count_ended_sessions(*server.store->tokens()) == 1);
  server.clock.advance(11s);
  CHECK(peer.call("GET", "/v1/queues", "", sign_in(anna)).status == 200);
}

TEST_CASE("signing out ends one session of a token that expires soon") {
  DashboardServer server;
  Peer peer(server);
  const std::string admin = "Authorization: Bearer " + new_token(server, "admin read", "anna");
  const Answer made =
      peer.call("POST", "/v1/tokens", R"({"name":"hour","scopes":["read"],"expires_in":"1h"})",
                admin + "\r\n");
  const std::size_t at = made.body.find("mst_");
  const std::string bearer =
      "Authorization: Bearer " + made.body.substr(at, made.body.find('"', at) - at) + "\r\n";
  const std::string first = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  server.clock.advance(1ms);
  const std::string second = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  CHECK(peer.call("DELETE", "/v1/session", "", first + kSameOrigin).status == 200);
  CHECK(peer.call("GET", "/v1/queues", "", first).status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", second).status == 200);
  server.clock.advance(1ms);
  const std::string third = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  CHECK(peer.call("GET", "/v1/queues", "", third).status == 200);
}

TEST_CASE("a session ends after 12 hours and with its token") {
  DashboardServer server;
  const std::string token = new_token(server, "read", "anna");
  Peer peer(server);
  const std::string bearer = "Authorization: Bearer " + token + "\r\n";
  const std::string cookie = cookie_line(peer.call("POST", "/v1/session", "", bearer));
  const std::uint64_t id = [&] {
    const Digest digest = *digest_of_token(token);
    std::uint64_t out = 0;
    std::memcpy(&out, digest.data(), sizeof out);
    return out;
  }();
  const Secret key(std::string(32, 'k'));
  const auto with_end = [&](WallTime end) {
    return "Cookie: mainspring_session=" + sign_dashboard_session({id, end}, key) + "\r\n";
  };
  const WallTime now = SystemClock().now().wall;
  CHECK(peer.call("GET", "/v1/queues", "", with_end(now + 1h)).status == 200);
  const Answer late = peer.call("GET", "/v1/queues", "", with_end(now - 1s));
  CHECK(late.status == 401);
  CHECK(holds(late.headers.at("Set-Cookie"), "Max-Age=0"));
  CHECK(peer.call("GET", "/v1/queues", "", cookie).status == 200);
  std::atomic<bool> done = false;
  server.broker->submit(RevokeToken{"anna"}, [&](OperationResult) { done = true; });
  wait_until([&] { return done.load(); });
  CHECK(peer.call("GET", "/v1/queues", "", cookie).status == 401);
}

TEST_CASE("a cookie behind a proxy that ends TLS is sent over TLS only") {
  DashboardServer server;
  const std::string token = new_token(server, "read", "anna");
  const Answer opened =
      Peer(server).call("POST", "/v1/session", "",
                        "Authorization: Bearer " + token + "\r\nX-Forwarded-Proto: https\r\n");
  CHECK(holds(opened.headers.at("Set-Cookie"), "; Secure"));
}

TEST_CASE("an invalid cookie is removed, so that a local page works without one") {
  DashboardServer server(false);
  Peer peer(server);
  const std::string stale = "Cookie: mainspring_session=mst_nonsense\r\n";
  const Answer refused = peer.call("GET", "/v1/queues", "", stale);
  CHECK(refused.status == 401);
  CHECK(holds(refused.headers.at("Set-Cookie"), "mainspring_session=; "));
  CHECK(holds(refused.headers.at("Set-Cookie"), "Max-Age=0"));
  CHECK(peer.call("GET", "/v1/queues").status == 200);
  const Answer local = peer.call("POST", "/v1/session");
  CHECK(local.body == R"({"who":"local","everything":true})");
  CHECK(local.headers.count("Set-Cookie") == 0);
}

TEST_CASE("a request's other cookies are passed on, without the session cookie") {
  const auto fields = mainspring::http::header_fields(
      "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1; mainspring_session=mst_x; b=2\r\n\r\n");
  CHECK(fields == mainspring::http::HeaderFields{{"Host", "a"}, {"Cookie", "a=1; b=2"}});
  CHECK(
      mainspring::http::header_fields("GET / HTTP/1.1\r\nCookie: mainspring_session=mst_x\r\n\r\n")
          .empty());
}
