// Triggers over real sockets: definitions, hooks by token and by signature, refusals.
#include <fmt/format.h>

#include "api/trigger_shapes.h"
#include "callbacks/signature.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kToken = "a-token-of-24-characters";
constexpr std::string_view kHook = R"({"http":{"event_id":"headers.x-id"},
  "secret":"a-token-of-24-characters","job":{"queue":"orders","kind":"import",
  "args":{"order":{"$ref":"body.order.id"},"from":{"$ref":"query.from","default":"unnamed"},
          "by":{"$ref":"headers.x-by","default":null},"trigger":{"$ref":"trigger.name"}}}})";

std::string triggers_bearer(std::string_view token) {
  return fmt::format("Authorization: Bearer {}\r\n", token);
}
void put(Peer& peer, std::string_view body = kHook) {
  const Answer answer = peer.call("PUT", "/v1/triggers/t", std::string(body));
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
}
Answer call(Peer& peer, std::string_view headers, std::string_view body = R"({"order":{"id":7}})",
            std::string_view target = "/hooks/t") {
  return peer.call("POST", std::string(target), std::string(body), std::string(headers));
}
TriggerFired fired(const Answer& answer) {
  const auto out = decode_trigger_fired(answer.body);
  REQUIRE_MESSAGE(out.has_value(), answer.body);
  return *out;
}
// The header lines of a request signed with the key.
std::string signed_lines(const Secret& key, std::string_view id, WallTime at,
                         std::string_view body) {
  const std::string seconds = fmt::to_string(at.us() / 1'000'000);
  return fmt::format("webhook-id: {}\r\nwebhook-timestamp: {}\r\nwebhook-signature: {}\r\n", id,
                     seconds, sign({key}, {id, seconds, body}));
}

}  // namespace

TEST_CASE("a hook makes a job from the request by its template, one per event") {
  TestServer server;
  Peer peer(server);
  put(peer);
  const std::string lines = triggers_bearer(kToken) + "X-Id: e1\r\nX-By: me\r\n";
  const Answer first = call(peer, lines, R"({"order":{"id":7}})", "/hooks/t?from=a%20b");
  REQUIRE_MESSAGE(first.status == 201, first.body);
  const auto job = server.store->get(fired(first).job);
  REQUIRE(job.has_value());
  CHECK(job->queue == "orders");
  CHECK(job->args == R"({"order":7,"from":"a b","by":"me","trigger":"t"})");
  const Answer again = call(peer, lines, R"({"order":{"id":8}})");
  CHECK(again.status == 200);
  CHECK(fired(again).duplicate);
  CHECK(fired(again).job == job->id);
  const Answer other = call(peer, triggers_bearer(kToken) + "X-Id: e2\r\n");
  CHECK(other.status == 201);
  CHECK(server.store->get(fired(other).job)->args ==
        R"({"order":7,"from":"unnamed","by":null,"trigger":"t"})");
  const Answer ledger = peer.call("GET", "/v1/triggers/t/ledger?limit=1");
  CHECK(has(ledger.body, R"("event":"e2")"));
  CHECK_FALSE(has(ledger.body, R"("next":null)"));
  const Answer shown = peer.call("GET", "/v1/triggers/t");
  CHECK(has(shown.body, R"("fired":2)"));
  CHECK_FALSE(has(shown.body, "secret"));
}

TEST_CASE("a hook without its secret makes nothing") {
  TestServer server;
  Peer peer(server);
  put(peer);
  const Answer refused = call(peer, "");
  CHECK(refused.status == 401);
  CHECK(call(peer, triggers_bearer("a-token-of-24-characterz")).body == refused.body);
  CHECK(call(peer, "Authorization: Basic eDp5\r\n").status == 401);
  // Whether a hook exists is not shown either.
  const Answer other = call(peer, triggers_bearer(kToken), "{}", "/hooks/other");
  CHECK(other.status == 401);
  CHECK(other.body == refused.body);
  CHECK(server.store->queues()->empty());
  const Answer good = call(peer, triggers_bearer(kToken));
  CHECK(good.status == 201);
  for (int i = 0; i < 20; ++i) call(peer, "");
  CHECK(call(peer, "").status == 429);
  CHECK(call(peer, triggers_bearer(kToken)).status == 201);
}

TEST_CASE("a signed hook accepts only a signature with its key, for this body, at this time") {
  TestServer server;
  Peer peer(server);
  const Answer made =
      peer.call("PUT", "/v1/triggers/t",
                R"({"http":{"auth":"signature"},"job":{"queue":"orders","kind":"import"}})");
  REQUIRE_MESSAGE(made.status == 201, made.body);
  const auto answer = decode_put_trigger_response(made.body);
  REQUIRE(answer.has_value());
  const auto key = parse_signing_key(answer->secret);
  REQUIRE(key.has_value());
  const WallTime now = server.clock.now().wall;
  const std::string body = R"({"n": 1})";
  const Answer good = call(peer, signed_lines(*key, "m1", now, body), body);
  REQUIRE_MESSAGE(good.status == 201, good.body);
  CHECK(server.store->get(fired(good).job)->args == body);
  CHECK(fired(call(peer, signed_lines(*key, "m1", now, body), body)).duplicate);
  CHECK(call(peer, signed_lines(*key, "m2", now, body), R"({"n": 2})").status == 401);
  CHECK(call(peer, signed_lines(*key, "m2", now - 10min, body), body).status == 401);
  CHECK(call(peer, signed_lines(*key, "m2", now + 10min, body), body).status == 401);
  SystemRandom random;
  CHECK(call(peer, signed_lines(make_signing_key(random), "m2", now, body), body).status == 401);
  CHECK(call(peer, "webhook-id: m2\r\n", body).status == 401);
  CHECK(call(peer, triggers_bearer(answer->secret), body).status == 401);
  const Answer same =
      peer.call("PUT", "/v1/triggers/t",
                R"({"http":{"auth":"signature"},"job":{"queue":"orders","kind":"import"}})");
  CHECK(same.status == 200);
  CHECK(has(same.body, R"("outcome":"unchanged")"));
  CHECK_FALSE(has(same.body, "secret"));
  CHECK(call(peer, signed_lines(*key, "m3", now, body), body).status == 201);
}

TEST_CASE("a paused hook answers with a time to retry") {
  TestServer server;
  Peer peer(server);
  put(peer);
  const Answer paused = peer.call("POST", "/v1/triggers/t/pause", R"({"reason":"full"})");
  CHECK(has(paused.body, R"("paused_reason":"full")"));
  const Answer refused = call(peer, triggers_bearer(kToken));
  CHECK(refused.status == 503);
  CHECK(refused.headers.contains("Retry-After"));
  CHECK(peer.call("POST", "/v1/triggers/t/fire", R"({"body":{"order":{"id":1}}})").status == 409);
  peer.call("POST", "/v1/triggers/t/resume");
  CHECK(call(peer, triggers_bearer(kToken)).status == 201);
}

TEST_CASE("a hook names the part of the request that it cannot accept") {
  TestServer server;
  Peer peer(server);
  put(peer);
  const Answer missing = call(peer, triggers_bearer(kToken), R"({"x":1})");
  CHECK(missing.status == 400);
  CHECK(has(missing.body, "body.order.id"));
  CHECK(call(peer, triggers_bearer(kToken), "{").status == 400);
  Peer large(server);
  CHECK(call(large, triggers_bearer(kToken), std::string((1 << 20) + 1, 'x')).status == 413);
  CHECK(server.store->queues()->empty());
  const Answer text = peer.call("PUT", "/v1/triggers/text",
                                R"({"http":{},"secret":"a-token-of-24-characters",
                                    "job":{"queue":"q","kind":"k"}})");
  REQUIRE_MESSAGE(text.status == 201, text.body);
  peer.send("POST /hooks/text HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n" +
            triggers_bearer(kToken) + "Content-Length: 5\r\n\r\nhello");
  const Answer plain = peer.receive();
  REQUIRE_MESSAGE(plain.status == 201, plain.body);
  CHECK(server.store->get(fired(plain).job)->args == "\"hello\"");
}

TEST_CASE("a hook accepts requests up to its rate") {
  TestServer server;
  Peer peer(server);
  put(peer, R"({"http":{"rate":2},"secret":"a-token-of-24-characters",
               "job":{"queue":"q","kind":"k"}})");
  int taken = 0, refused = 0;
  for (int i = 0; i < 20; ++i) {
    const int status = call(peer, triggers_bearer(kToken)).status;
    taken += status == 201 ? 1 : 0;
    refused += status == 429 ? 1 : 0;
  }
  CHECK(taken + refused == 20);
  CHECK(taken >= 2);
  CHECK(refused > 0);
}

TEST_CASE("the end of a job fires a trigger; the ledger shows why an end made no job") {
  TestServer server;
  Peer peer(server);
  const Answer made =
      peer.call("PUT", "/v1/triggers/t",
                R"({"ended":{"queue":"q","on":["completed","dead"]},"job":{"queue":"then",
                    "kind":"k","args":{"of":{"$ref":"job.id"},"n":{"$ref":"job.result.n"}}}})");
  REQUIRE_MESSAGE(made.status == 201, made.body);
  CHECK(has(made.body, R"("ended":{"queue":"q","on":["completed","dead"]})"));
  CHECK_FALSE(has(made.body, "secret"));
  const auto work = [&](std::string_view outcome) {
    peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"work"})");
    const Answer claimed =
        peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"max":1})");
    const auto jobs = decode_claim_response(claimed.body);
    REQUIRE_MESSAGE((jobs && jobs->jobs.size() == 1), claimed.body);
    const Answer answer =
        peer.call("POST", "/v1/finish",
                  fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},{}}}]}})",
                              jobs->jobs[0].id, jobs->jobs[0].token, outcome));
    CHECK_MESSAGE(has(answer.body, R"("status":"ok")"), answer.body);
    return jobs->jobs[0].id;
  };
  const JobId first = work(R"("outcome":"complete","result":{"n":7})");
  const JobId second = work(R"("outcome":"dead","reason":"poison")");
  const Answer jobs = peer.call("GET", "/v1/jobs?queue=then");
  CHECK(has(jobs.body, fmt::format(R"("args":{{"of":{},"n":7}})", first)));
  CHECK(has(jobs.body, R"("trigger_depth":1)"));
  const Answer shown = peer.call("GET", "/v1/triggers/t");
  CHECK(has(shown.body, R"("fired":1,"refused":1)"));
  const auto page = decode_trigger_events(peer.call("GET", "/v1/triggers/t/ledger").body);
  REQUIRE(page.has_value());
  REQUIRE(page->rows.size() == 2);
  CHECK(page->rows[0].event == fmt::format("{}/dead", second));
  CHECK(page->rows[0].job == 0);
  CHECK(has(page->rows[0].reason, "job.result.n"));
  CHECK(page->rows[1].event == fmt::format("{}/completed", first));
  CHECK(page->rows[1].job != 0);
  CHECK(call(peer, triggers_bearer(kToken)).status == 401);
  const Answer by_hand =
      peer.call("POST", "/v1/triggers/t/fire", R"({"event":"e","job":{"id":3,"result":{"n":1}}})");
  REQUIRE_MESSAGE(by_hand.status == 201, by_hand.body);
  CHECK(server.store->get(fired(by_hand).job)->args == R"({"of":3,"n":1})");
}

TEST_CASE("invalid definitions of triggers are refused with the reason") {
  TestServer server;
  Peer peer(server);
  const auto refused = [&](std::string_view body) {
    const Answer answer = peer.call("PUT", "/v1/triggers/t", std::string(body));
    CHECK_MESSAGE(answer.status == 400, answer.body);
    return answer.body;
  };
  CHECK(has(refused(R"({"job":{"kind":"k"}})"), R"("field":"http")"));
  CHECK(has(refused(R"({"http":{},"folder":{"path":"/a"},"job":{"kind":"k"}})"),
            R"("field":"http")"));
  CHECK(has(refused(R"({"http":{},"job":{"kind":"k","args":{"a":{"$ref":"file.path"}}}})"),
            R"("field":"job.args")"));
  CHECK(has(refused(R"({"http":{"event_id":"x.y"},"job":{"kind":"k"}})"), "http.event_id"));
  CHECK(has(refused(R"({"http":{},"secret":"short","job":{"kind":"k"}})"), R"("field":"secret")"));
  CHECK(has(refused(R"({"http":{"auth":"signature"},"secret":"a-token-of-24-characters",
                        "job":{"kind":"k"}})"),
            R"("field":"secret")"));
  CHECK(has(refused(R"({"http":{},"job":{"kind":"k","queue":"mainspring.callbacks"}})"),
            "job.queue"));
  CHECK(has(refused(R"({"folder":{"path":"/tmp"},"job":{"kind":"k"}})"), "--watch-root"));
  CHECK(has(refused(R"({"ended":{"on":["message"]},"job":{"kind":"k"}})"), "ended.on"));
  CHECK(has(refused(R"({"ended":{"on":[]},"job":{"kind":"k"}})"), "ended.on"));
  CHECK(has(refused(R"({"ended":{"queue":"mainspring.x"},"job":{"kind":"k"}})"), "ended.queue"));
  CHECK(has(refused(R"({"ended":{"queue":"q"},"job":{"queue":"q","kind":"k"}})"), "ended.kind"));
  CHECK(has(refused(R"({"ended":{},"http":{},"job":{"kind":"k"}})"), R"("field":"http")"));
  CHECK(has(refused(R"({"ended":{},"job":{"kind":"k","args":{"a":{"$ref":"body.a"}}}})"),
            R"("field":"job.args")"));
  CHECK(has(refused(R"({"schedule":"* * * * *","job":{"kind":"k"}})"), "/v1/schedules/{name}"));
  CHECK(has(refused(R"({"folder":{"path":"/tmp/../etc"},"job":{"kind":"k"}})"), "folder.path"));
}

TEST_CASE("folders of triggers must be below the watch roots") {
  TestServer server({}, {.watch_roots = {"/in/here"}});
  Peer peer(server);
  const auto status = [&](std::string_view path) {
    return peer
        .call("PUT", "/v1/triggers/t",
              fmt::format(R"({{"folder":{{"path":"{}"}},"job":{{"kind":"k"}}}})", path))
        .status;
  };
  CHECK(status("/in") == 400);
  CHECK(status("/in/herewith") == 400);
  CHECK(status("/in/here") == 201);
  CHECK(status("/in/here/a") == 200);
}
