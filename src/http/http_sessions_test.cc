// Sessions over real sockets: every route, accepted and refused, holders, order, state.
#include <fmt/format.h>

#include "api/session_shapes.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kPath = "/v1/queues/orders/sessions/customer%2F7";
constexpr std::string_view kHeld = R"({"queue":"orders","key":"customer/7","token":)";

JobId sessions_enqueue(Peer& peer, std::string_view more = "") {
  const Answer answer = peer.call(
      "POST", "/v1/jobs",
      R"({"queue":"orders","kind":"ship","session":"customer/7")" + std::string(more) + "}");
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
  return decode_enqueue_response(answer.body)->jobs[0].id;
}
ClaimResult claimed(Peer& peer, std::string_view body) {
  const Answer answer = peer.call("POST", "/v1/claim", body);
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return *decode_claim_response(answer.body);
}
Token accept(Peer& peer, std::string_view worker) {
  const Answer answer =
      peer.call("POST", "/v1/queues/orders/sessions/accept",
                fmt::format(R"({{"worker":"{}","session":"customer/7","lease":"1h"}})", worker));
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return decode_accept_response(answer.body)->session->token;
}
void finish(Peer& peer, const ClaimedJob& job, std::string_view more) {
  const Answer answer =
      peer.call("POST", "/v1/finish",
                fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},{}}}]}})", job.id,
                            job.token, more));
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  CHECK(has(answer.body, R"("status":"ok")"));
}
SessionInfo read(Peer& peer) {
  const auto session = decode_session(peer.call("GET", kPath).body);
  REQUIRE(session);
  return *session;
}

constexpr std::string_view kAny = R"({"worker":"w","queues":["orders"],"max":10})";

}  // namespace

TEST_CASE("ORD: jobs of a session run one after another and pass on the state") {
  TestServer server;
  Peer peer(server);
  const JobId first = sessions_enqueue(peer);
  const JobId second = sessions_enqueue(peer, R"(,"priority":0)");
  auto got = claimed(peer, kAny);
  REQUIRE(got.jobs.size() == 1);
  CHECK(got.jobs[0].id == first);
  CHECK(got.jobs[0].session == "customer/7");
  CHECK(got.jobs[0].session_state.empty());
  CHECK(claimed(peer, kAny).jobs.empty());
  CHECK(decode_job(peer.call("GET", fmt::format("/v1/jobs/{}", second)).body)->state ==
        JobState::waiting);
  const auto why = decode_why(peer.call("GET", fmt::format("/v1/jobs/{}/why", second)).body);
  REQUIRE(why);
  CHECK(why->gate == "session_head");
  finish(peer, got.jobs[0], R"("outcome":"complete","session_state":{"seen": 1})");
  got = claimed(peer, kAny);
  REQUIRE(got.jobs.size() == 1);
  CHECK(got.jobs[0].id == second);
  CHECK(got.jobs[0].session_state == R"({"seen": 1})");
  finish(peer, got.jobs[0], R"("outcome":"complete","session_state":null)");
  CHECK(peer.call("GET", kPath).status == 404);
}

TEST_CASE("the life of a session over HTTP: accepted, claimed from, renewed, released") {
  TestServer server;
  Peer peer(server);
  const Token token = accept(peer, "one");
  const Answer other = peer.call("POST", "/v1/queues/orders/sessions/accept",
                                 R"({"worker":"two","session":"customer/7"})");
  CHECK(other.status == 409);
  CHECK(code_of(other) == "lease_held");
  CHECK(accept(peer, "one") == token);
  const JobId id = sessions_enqueue(peer);
  CHECK(claimed(peer, kAny).jobs.empty());
  const auto why = decode_why(peer.call("GET", fmt::format("/v1/jobs/{}/why", id)).body);
  REQUIRE(why);
  CHECK(why->gate == "session_held");
  const std::string held = fmt::format(R"({{"worker":"one","session":{}{}}}}})", kHeld, token);
  const auto got = claimed(peer, held);
  REQUIRE(got.jobs.size() == 1);
  CHECK(got.jobs[0].id == id);
  const std::string by_token = fmt::format(R"({{"token":{}}})", token);
  const auto renewed =
      decode_session_renewed(peer.call("POST", std::string(kPath) + "/renew", by_token).body);
  REQUIRE(renewed);
  CHECK(renewed->lease == 1h);
  CHECK(peer.call("PUT", std::string(kPath) + "/state",
                  fmt::format(R"({{"token":{},"state":[1, 2]}})", token))
            .body == R"({"queue":"orders","key":"customer/7","state_bytes":6})");
  const SessionInfo session = read(peer);
  CHECK(session.worker == "one");
  CHECK(session.token == token);
  CHECK(session.head == id);
  CHECK(session.jobs == 1);
  CHECK(session.state == "[1, 2]");
  const Answer list = peer.call("GET", "/v1/queues/orders/sessions");
  CHECK(decode_sessions(list.body)->sessions.size() == 1);
  CHECK_FALSE(has(list.body, "[1, 2]"));
  CHECK(peer.call("POST", std::string(kPath) + "/release", by_token).body ==
        R"({"queue":"orders","key":"customer/7","released":true})");
  for (const std::string_view verb : {"renew", "release"}) {
    const Answer late = peer.call("POST", fmt::format("{}/{}", kPath, verb), by_token);
    CHECK(late.status == 409);
    CHECK(code_of(late) == "lease_lost");
  }
  const Answer late = peer.call("POST", "/v1/claim", held);
  CHECK(late.status == 409);
  CHECK(code_of(late) == "lease_lost");
}

TEST_CASE("an accept waits for the next session that has a job, and takes both") {
  TestServer server;
  Peer waiting(server);
  Peer peer(server);
  const std::string body = R"({"worker":"w","wait":"20s"})";
  waiting.send(
      "POST /v1/queues/orders/sessions/accept HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  wait_until([&] { return server.broker->parked_claims() == 1; });
  const JobId id = sessions_enqueue(peer);
  const auto got = decode_accept_response(waiting.receive().body);
  REQUIRE(got);
  REQUIRE(got->session);
  CHECK(got->session->session == SessionKey{"orders", "customer/7"});
  REQUIRE(got->jobs.size() == 1);
  CHECK(got->jobs[0].id == id);
  CHECK(peer.call("POST", "/v1/queues/orders/sessions/accept", R"({"worker":"x"})").body ==
        R"({"session":null,"jobs":[]})");
  const Answer workers = peer.call("GET", "/v1/workers");
  CHECK(has(workers.body, R"("queues":["orders"])"));
}

TEST_CASE("resuming a session that a dead job blocks continues it and is recorded") {
  TestServer server;
  Peer peer(server);
  const JobId first = sessions_enqueue(peer, R"(,"session_on_dead":"block")");
  const JobId second = sessions_enqueue(peer);
  finish(peer, claimed(peer, kAny).jobs.at(0), R"("outcome":"dead","reason":"broken")");
  CHECK(claimed(peer, kAny).jobs.empty());
  SessionInfo session = read(peer);
  CHECK(session.stop == SessionStop::blocked);
  CHECK(session.stopped_by == first);
  const auto why = decode_why(peer.call("GET", fmt::format("/v1/jobs/{}/why", second)).body);
  REQUIRE(why);
  CHECK(why->gate == "session_stopped");
  CHECK(has(why->why, "mainspring sessions resume orders customer/7"));
  CHECK(peer.call("POST", std::string(kPath) + "/resume").body ==
        R"({"queue":"orders","key":"customer/7","stop":"none"})");
  CHECK(has(peer.call("GET", "/v1/audit?action=resume_session").body,
            R"("object":"session/orders/customer/7")"));
  CHECK(claimed(peer, kAny).jobs.at(0).id == second);
}

TEST_CASE("an invalid session request is refused with its field, before any change") {
  TestServer server;
  Peer peer(server);
  const std::string large =
      R"({"token":1,"state":")" + std::string(kMaxSessionStateBytes, 'x') + "\"}";
  check_refusals(
      peer,
      {{"POST", "/v1/queues/q/sessions/accept", "{}", 400, "invalid_argument", "worker"},
       {"POST", "/v1/queues/a%20b/sessions/accept", R"({"worker":"w"})", 400, "invalid_argument",
        "queue"},
       {"POST", "/v1/queues/mainspring.callbacks/sessions/accept", R"({"worker":"w"})", 400,
        "invalid_argument", "queue"},
       {"POST", "/v1/queues/q/sessions/accept", R"({"worker":"w","wait":"2m"})", 400,
        "invalid_argument", "wait"},
       {"POST", "/v1/queues/q/sessions/k/renew", "{}", 400, "invalid_argument", "token"},
       {"POST", "/v1/queues/q/sessions/k/renew", R"({"token":1})", 409, "lease_lost", ""},
       {"POST", "/v1/queues/q/sessions/k/release", R"({"token":1})", 409, "lease_lost", ""},
       {"PUT", "/v1/queues/q/sessions/k/state", R"({"token":1})", 400, "invalid_argument", "state"},
       {"PUT", "/v1/queues/q/sessions/k/state", large, 413, "too_large", "state"},
       {"POST", "/v1/queues/q/sessions/k/resume", "", 404, "not_found", ""},
       {"GET", "/v1/queues/q/sessions/never", "", 404, "not_found", ""},
       {"GET", "/v1/queues/q/sessions?limit=0", "", 400, "invalid_argument", "limit"},
       {"GET", "/v1/queues/q/sessions/a%5Cb", "", 400, "invalid_argument", "path"},
       {"DELETE", "/v1/queues/q/sessions/k", "", 405, "method_not_allowed", ""},
       {"PUT", "/v1/schedules/s", R"({"every":"1h","job":{"queue":"q","kind":"k","session":"s"}})",
        400, "invalid_argument", "job.session"}});
}
