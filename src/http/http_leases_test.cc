// Leases over real sockets: every route, accepted and refused, waits, fences.
#include "api/lease_shapes.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

Token acquire(Peer& peer, std::string_view path, std::string_view holder) {
  const Answer answer = peer.call("POST", std::string(path) + "/acquire",
                                  R"({"holder":")" + std::string(holder) + R"(","ttl":"1h"})");
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return decode_lease_grant(answer.body)->token;
}
std::string held_by(std::string_view holder, Token token, std::string_view more = "") {
  return R"({"holder":")" + std::string(holder) + R"(","token":)" + std::to_string(token) +
         std::string(more) + "}";
}

}  // namespace

TEST_CASE("the life of a lease over HTTP: acquired, renewed with a value, released, read") {
  TestServer server;
  Peer peer(server);
  const Answer first =
      peer.call("POST", "/v1/leases/report%2Feu/acquire", R"({"holder":"one","ttl":"15s"})");
  CHECK(first.status == 200);
  const Token token = decode_lease_grant(first.body)->token;
  CHECK(first.body ==
        R"({"name":"report/eu","token":)" + std::to_string(token) + R"(,"expires_in_ms":15000})");

  const Answer second = peer.call("POST", "/v1/leases/report%2Feu/acquire", R"({"holder":"two"})");
  CHECK(second.status == 409);
  CHECK(code_of(second) == "lease_held");
  CHECK(has(message_of(second), "one"));
  CHECK(decode_error(409, second.body).retry_after_ms > 0);
  CHECK(second.headers.contains("Retry-After"));

  const auto again = decode_lease_grant(
      peer.call("POST", "/v1/leases/report%2Feu/acquire", R"({"holder":"one"})").body);
  REQUIRE(again);
  CHECK(again->held);
  CHECK(again->token == token);

  const Answer renewed = peer.call("POST", "/v1/leases/report%2Feu/renew",
                                   held_by("one", token, R"(,"ttl":"1h","value":{"at": 7})"));
  CHECK(renewed.status == 200);
  CHECK(decode_lease_grant(renewed.body)->ttl == 1h);
  const auto lease = decode_lease(peer.call("GET", "/v1/leases/report%2Feu").body);
  REQUIRE(lease);
  CHECK(lease->holder == "one");
  CHECK(lease->token == token);
  CHECK(lease->expires_in > 59min);
  CHECK(lease->since);
  CHECK(lease->value == R"({"at": 7})");

  CHECK(peer.call("POST", "/v1/leases/report%2Feu/release", held_by("one", token)).body ==
        R"({"name":"report/eu","released":true})");
  const auto free = decode_lease(peer.call("GET", "/v1/leases/report%2Feu").body);
  REQUIRE(free);
  CHECK(free->holder.empty());
  CHECK(free->value == R"({"at": 7})");
  const auto next = decode_lease_grant(
      peer.call("POST", "/v1/leases/report%2Feu/acquire", R"({"holder":"two"})").body);
  REQUIRE(next);
  CHECK(next->token > token);
  CHECK(next->value == R"({"at": 7})");
}

TEST_CASE("FENCE-1: a client that lost its lease gets lease_lost for every request") {
  TestServer server;
  Peer peer(server);
  const Token old = acquire(peer, "/v1/leases/a", "one");
  CHECK(peer.call("POST", "/v1/leases/a/release", held_by("one", old)).status == 200);
  const Token token = acquire(peer, "/v1/leases/a", "two");
  CHECK(token > old);
  for (std::string_view verb : {"renew", "release"}) {
    for (const std::string& body :
         {held_by("one", old), held_by("two", old), held_by("one", token)}) {
      const Answer answer = peer.call("POST", "/v1/leases/a/" + std::string(verb), body);
      CAPTURE(body);
      CHECK(answer.status == 409);
      CHECK(code_of(answer) == "lease_lost");
    }
  }
  CHECK(decode_lease(peer.call("GET", "/v1/leases/a").body)->holder == "two");
}

TEST_CASE("an invalid lease request is refused with its field, before any change") {
  TestServer server;
  Peer peer(server);
  const std::string large =
      held_by("h", 1, R"(,"value":")" + std::string(kMaxLeaseValueBytes, 'x') + "\"");
  check_refusals(
      peer,
      {{"POST", "/v1/leases/a/acquire", "", 400, "invalid_argument", ""},
       {"POST", "/v1/leases/a/acquire", "{}", 400, "invalid_argument", "holder"},
       {"POST", "/v1/leases/a/acquire", R"({"holder":"h","ttl":"1ms"})", 400, "invalid_argument",
        "ttl"},
       {"POST", "/v1/leases/a/acquire", R"({"holder":"h","wait":"2m"})", 400, "invalid_argument",
        "wait"},
       {"POST", "/v1/leases/a/acquire", R"({"holder":"h","token":1})", 400, "invalid_argument",
        "token"},
       {"POST", "/v1/leases/a%20b/acquire", R"({"holder":"h"})", 400, "invalid_argument", "name"},
       {"POST", "/v1/leases/a/renew", R"({"holder":"h"})", 400, "invalid_argument", "token"},
       {"POST", "/v1/leases/a/renew", large, 413, "too_large", "value"},
       {"POST", "/v1/leases/a/release", R"({"token":1})", 400, "invalid_argument", "holder"},
       {"GET", "/v1/leases/a%20b", "", 400, "invalid_argument", "name"},
       {"GET", "/v1/leases/never", "", 404, "not_found", ""},
       {"GET", "/v1/leases?limit=0", "", 400, "invalid_argument", "limit"},
       {"GET", "/v1/leases?cursor=1", "", 400, "invalid_argument", "cursor"},
       {"DELETE", "/v1/leases/a", "", 405, "method_not_allowed", ""},
       {"GET", "/v1/leases/a/acquire", "", 405, "method_not_allowed", ""},
       {"POST", "/v1/leases/a/b/acquire", R"({"holder":"h"})", 404, "not_found", ""}});
  CHECK(peer.call("GET", "/v1/leases/a").status == 404);
}

TEST_CASE("clients can read the engine's own leases, nothing else") {
  TestServer server;
  Peer peer(server);
  const std::string path = "/v1/leases/mainspring%2Fleader/";
  for (const auto& [verb, body] :
       {std::pair("acquire", std::string(R"({"holder":"h"})")), std::pair("renew", held_by("h", 1)),
        std::pair("release", held_by("h", 1))}) {
    const Answer answer = peer.call("POST", path + verb, body);
    CAPTURE(verb);
    CHECK(answer.status == 400);
    CHECK(field_of(answer) == "name");
    CHECK(has(message_of(answer), "mainspring/"));
  }
}

TEST_CASE("leases are listed by name, page by page") {
  TestServer server;
  Peer peer(server);
  for (const char* name : {"c", "a", "b"}) acquire(peer, "/v1/leases/" + std::string(name), "h");
  std::vector<std::string> names;
  std::string after;
  for (int page = 0; page < 10; ++page) {
    const Answer answer = peer.call("GET", "/v1/leases?limit=2" + after);
    REQUIRE(answer.status == 200);
    const auto leases = decode_leases(answer.body);
    REQUIRE(leases);
    for (const LeaseInfo& lease : leases->items)
      if (!lease.name.starts_with(kReservedLeases)) names.push_back(lease.name);
    if (has(answer.body, R"("next":null)")) break;
    after = "&after=" + leases->next;
  }
  CHECK(names == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("acquires wait for the release in order of arrival, and abandoned ones are skipped") {
  TestServer server;
  Peer holder(server), gone(server), second(server), third(server);
  const Token token = acquire(holder, "/v1/leases/a", "one");
  const auto waiting = [](std::string_view name) {
    return Peer::request("POST", "/v1/leases/a/acquire",
                         R"({"holder":")" + std::string(name) + R"(","ttl":"1h","wait":"20s"})");
  };
  const auto parked = [&] { return server.broker->parked_acquires(); };
  gone.send(waiting("gone"));
  wait_until([&] { return parked() == 1; });
  second.send(waiting("two"));
  wait_until([&] { return parked() == 2; });
  third.send(waiting("three"));
  wait_until([&] { return parked() == 3; });
  gone.close();
  wait_until([&] { return parked() == 2; });
  CHECK(holder.call("POST", "/v1/leases/a/release", held_by("one", token)).status == 200);
  const Answer granted = second.receive();
  REQUIRE(granted.status == 200);
  const auto grant = decode_lease_grant(granted.body);
  CHECK(grant->token > token);
  CHECK(decode_lease(holder.call("GET", "/v1/leases/a").body)->holder == "two");
  CHECK(second.call("POST", "/v1/leases/a/release", held_by("two", grant->token)).status == 200);
  CHECK(third.receive().status == 200);
}

TEST_CASE("an acquire that times out returns the holder of the lease") {
  TestServer server;
  Peer peer(server);
  acquire(peer, "/v1/leases/a", "one");
  const Answer late =
      peer.call("POST", "/v1/leases/a/acquire", R"({"holder":"two","wait":"10ms"})");
  CHECK(late.status == 409);
  CHECK(code_of(late) == "lease_held");
  CHECK(has(message_of(late), "one"));
}

TEST_CASE("a server stop answers acquires that wait for a lease") {
  TestServer server;
  Peer holder(server), waiter(server);
  acquire(holder, "/v1/leases/a", "one");
  waiter.send(Peer::request("POST", "/v1/leases/a/acquire", R"({"holder":"two","wait":"60s"})"));
  wait_until([&] { return server.broker->parked_acquires() == 1; });
  server.broker->stop_claims();
  CHECK(waiter.receive().status >= 400);
}

TEST_CASE("FENCE-2: a fenced enqueue is refused as a whole when the lease is lost") {
  TestServer server;
  Peer peer(server);
  const Token token = acquire(peer, "/v1/leases/a%2Fb", "one");
  const std::string fence = R"("fence":{"lease":"a/b","token":)" + std::to_string(token) + "}";
  const std::string single = R"({"queue":"q","kind":"k",)" + fence + "}";
  const std::string many =
      R"({"jobs":[{"queue":"q","kind":"k"},{"queue":"q","kind":"k"}],)" + fence + "}";
  CHECK(peer.call("POST", "/v1/jobs", single).status == 201);
  CHECK(peer.call("POST", "/v1/jobs", many).status == 201);
  CHECK(peer.call("POST", "/v1/leases/a%2Fb/release", held_by("one", token)).status == 200);
  for (const std::string& body : {single, many}) {
    const Answer refused = peer.call("POST", "/v1/jobs", body);
    CHECK(refused.status == 409);
    CHECK(code_of(refused) == "lease_lost");
  }
  CHECK(decode_queue(peer.call("GET", "/v1/queues/q").body)->enqueued == 3);
}
