// Breakers over real sockets: created, named by a queue, opened and closed, and what is refused.
#include <fmt/format.h>

#include "api/breaker_shapes.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

BreakerInfo breaker(const Answer& answer) {
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  auto info = decode_breaker(answer.body);
  REQUIRE_MESSAGE(info.has_value(), answer.body);
  return *info;
}

void breakers_enqueue(Peer& peer, const std::string& body) {
  CHECK(peer.call("POST", "/v1/jobs", body).status == 201);
}
ClaimResult breakers_claim(Peer& peer, const std::string& body) {
  auto result = decode_claim_response(peer.call("POST", "/v1/claim", body).body);
  REQUIRE(result.has_value());
  return *result;
}

}  // namespace

TEST_CASE("a breaker is created, named, opened by an outcome and by hand, closed and removed") {
  TestServer server;
  Peer peer(server);
  const BreakerInfo made =
      breaker(peer.call("PUT", "/v1/breakers/geo", R"({"failures":1,"open_for":"1m"})"));
  CHECK(made.settings.failures == 1);
  CHECK(made.state == BreakerState::closed);
  CHECK(peer.call("PUT", "/v1/queues/q/limits", R"({"breaker":"geo"})").body ==
        R"({"name":"q","limits":{"concurrency":null,"rate":null,"breaker":"geo"}})");
  breakers_enqueue(peer, R"({"queue":"q","kind":"k"})");
  breakers_enqueue(peer, R"({"queue":"q","kind":"k"})");
  const auto jobs = breakers_claim(peer, R"({"worker":"w","queues":["q"]})").jobs;
  REQUIRE(jobs.size() == 1);
  const Answer finished =
      peer.call("POST", "/v1/finish",
                fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":"snooze",)"
                            R"("after":"1h","open_breaker_for":"10m"}}]}})",
                            jobs[0].id, jobs[0].token));
  CHECK_MESSAGE(finished.body.find(R"("ok")") != std::string::npos, finished.body);
  const BreakerInfo open = breaker(peer.call("GET", "/v1/breakers/geo"));
  CHECK(open.state == BreakerState::open);
  CHECK(open.opened == 1);
  CHECK(open.queues == std::vector<std::string>{"q"});
  CHECK(breakers_claim(peer, R"({"worker":"w","queues":["q"]})").jobs.empty());
  const Answer why = peer.call("GET", "/v1/jobs/2/why");
  CHECK_MESSAGE(why.body.find(R"("gate":"breaker")") != std::string::npos, why.body);
  CHECK(why.body.find("breaker geo of queue q is open until") != std::string::npos);
  const Answer metrics = peer.call("GET", "/metrics");
  CHECK(metrics.body.find(R"(mainspring_breaker_state{breaker="geo"} 2)") != std::string::npos);
  CHECK(peer.call("DELETE", "/v1/breakers/geo").status == 409);
  CHECK(breaker(peer.call("POST", "/v1/breakers/geo/close")).state == BreakerState::closed);
  CHECK(breaker(peer.call("POST", "/v1/breakers/geo/open", R"({"for":"1h"})")).open_until);
  CHECK(breaker(peer.call("POST", "/v1/breakers/geo/open")).state == BreakerState::open);
  CHECK(decode_breakers(peer.call("GET", "/v1/breakers").body)->size() == 1);
  CHECK(peer.call("PUT", "/v1/queues/q/limits", "{}").status == 200);
  CHECK(peer.call("DELETE", "/v1/breakers/geo").body == R"({"name":"geo","removed":true})");
  CHECK(peer.call("GET", "/v1/breakers/geo").status == 404);
}

TEST_CASE("to attach a breaker a caller needs a right on it; an attached one may stay") {
  HttpOptions options;
  options.require_token = true;
  TestServer server(options);
  const std::string root = scoped_token(server, "admin", "root");
  const std::string mine = scoped_token(server, "admin=mine", "mine");
  const std::string both = scoped_token(server, "admin=mine admin=breaker/geo", "both");
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/breakers/geo", "{}", root).status == 200);
  const std::string attach = R"({"concurrency":2,"breaker":"geo"})";
  const std::string path = "/v1/queues/mine/limits";
  CHECK(message_of(peer.call("PUT", path, attach, mine)) ==
        R"("mine" needs the scope "admin=breaker/geo")");
  CHECK(message_of(peer.call("PUT", path, R"({"breaker":"unknown"})", mine)) ==
        R"("mine" needs the scope "admin=breaker/unknown")");
  CHECK(peer.call("PUT", path, attach, both).status == 200);
  CHECK(peer.call("PUT", path, R"({"concurrency":3,"breaker":"geo"})", mine).status == 200);
  CHECK(peer.call("PUT", path, "{}", mine).status == 200);
  CHECK(peer.call("PUT", path, attach, mine).status == 403);
}

TEST_CASE("an invalid breaker is refused with the rule") {
  TestServer server;
  Peer peer(server);
  const auto refused = [&](std::string_view method, const std::string& target,
                           const std::string& body, std::string_view field) {
    const Answer answer = peer.call(std::string(method), target, body);
    CHECK_MESSAGE(answer.status == 400, answer.body);
    CHECK_MESSAGE(answer.body.find(fmt::format(R"("field":"{}")", field)) != std::string::npos,
                  answer.body);
  };
  refused("PUT", "/v1/breakers/b", R"({"failures":0})", "failures");
  refused("PUT", "/v1/breakers/b", R"({"open_for":"1h","max_open_for":"1m"})", "max_open_for");
  refused("PUT", "/v1/breakers/b", R"({"probes":17})", "probes");
  refused("PUT", "/v1/queues/q/limits", R"({"breaker":"unknown"})", "breaker");
  refused("POST", "/v1/breakers/b/open", R"({"for":"0s"})", "for");
  refused("POST", "/v1/finish",
          R"({"worker":"w","results":[{"id":1,"token":1,"outcome":"retry","error":"",)"
          R"("open_breaker_for":"48h"}]})",
          "results[0].open_breaker_for");
  CHECK(peer.call("POST", "/v1/breakers/b/open", "{}").status == 404);
  CHECK(peer.call("POST", "/v1/breakers/b/close").status == 404);
}
