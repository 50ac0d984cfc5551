// The routes of a test server, and what its faults do to connections.
#include "http/test_routes.h"

#include "http/http_test_support.h"
#include "test_server/test_control.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

// A server with the routes of a test server. Its store is synced, which does not matter here.
struct FaultyServer {
  FaultyServer() {
    auto opened = open_sqlite_store({.directory = directory.path() + "/store"}, clock.now(), log);
    REQUIRE(opened);
    store = std::move(*opened);
    broker = std::make_unique<Broker>(*store, clock, log, registry);
    scheduler = std::make_unique<Scheduler>(*broker, clock, log, registry);
    control = std::make_unique<TestControl>(
        TestControl::Parts{*broker, *scheduler, *store, clock, random, log},
        TestOptions{.directory = directory.path() + "/store", .seed = 5});
    server =
        std::make_unique<HttpServer>(HttpOptions{.port = 0}, *broker, *store, clock, log, registry);
    server->serve_test(*control);
    broker->start();
    scheduler->start();
    control->start();
    REQUIRE(server->start());
  }
  ~FaultyServer() {
    control->stop();
    server->stop(1s);
    scheduler->stop();
    broker->stop();
  }

  Answer call(std::string_view method, std::string_view path, std::string_view body = "") {
    Peer peer(server->port(), nullptr);
    return peer.call(method, path, body);
  }
  std::string claim() {
    const Answer answer =
        call("POST", "/v1/claim", R"({"worker":"w","queues":["a"],"max":1,"wait":"10s"})");
    const auto claimed = decode_claim_response(answer.body);
    REQUIRE(claimed);
    REQUIRE(claimed->jobs.size() == 1);
    const ClaimedJob& job = claimed->jobs.front();
    return R"({"worker":"w","results":[{"id":)" + std::to_string(job.id) + R"(,"token":)" +
           std::to_string(job.token) + R"(,"outcome":"complete"}]})";
  }

  TempDir directory;
  SystemClock system;
  VirtualClock clock{system};
  SystemRandom random;
  StrictLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<TestControl> control;
  std::unique_ptr<HttpServer> server;
};

}  // namespace

TEST_CASE("only a test server has the test routes") {
  TestServer server;
  Peer peer(server);
  for (const http::Route& route : http::test_routes().routes) {
    CAPTURE(route.id);
    CHECK(peer.call(route.method, route.pattern, "{}").status == 404);
  }
  CHECK_FALSE(has(HttpServer::openapi("1"), "/v1/test"));
}

TEST_CASE("each route of a test server answers, and refuses by field") {
  FaultyServer server;
  CHECK(server.call("POST", "/v1/test/namespace").body == R"({"namespace":"t1","prefix":"t1."})");
  CHECK(server.call("POST", "/v1/test/namespace", R"({"name":"t1"})").status == 409);
  CHECK(server.call("POST", "/v1/jobs", R"({"queue":"t1.a","kind":"k","delay":"1h"})").status ==
        201);
  CHECK(has(server.call("GET", "/v1/test/clock").body, R"({"now":"20)"));
  CHECK(has(server.call("POST", "/v1/test/clock", R"({"advance":"2h"})").body,
            R"("what":"scheduled","job":)"));
  CHECK(server.call("POST", "/v1/test/drain", R"({"namespace":"t1","timeout":"0s"})").body ==
        R"({"drained":false,"left":1})");
  CHECK(server.call("GET", "/v1/test/await?job=1&state=available").status == 200);
  CHECK(server.call("GET", "/v1/test/await?job=1&timeout=0s").status == 408);
  CHECK(has(server.call("POST", "/v1/test/faults", R"({"lost_lease":0.5})").body, R"({"seed":5,)"));
  CHECK(has(server.call("GET", "/v1/test/faults").body, R"("lost_lease":0.5)"));
  CHECK(has(server.call("DELETE", "/v1/test/faults").body, R"("lost_lease":0,)"));
  CHECK(server.call("POST", "/v1/test/reset", R"({"namespace":"t1"})").status == 200);
  CHECK(server.call("POST", "/v1/test/faults", R"({"crash":true})").status == 409);

  Peer peer(server.server->port(), nullptr);
  check_refusals(
      peer,
      {{"POST", "/v1/test/clock", "{}", 400, "invalid_argument", "advance"},
       {"POST", "/v1/test/clock", R"({"advance":"soon"})", 400, "invalid_argument", "advance"},
       {"POST", "/v1/test/drain", R"({"timeout":7})", 400, "invalid_argument", "timeout"},
       {"POST", "/v1/test/drain", R"({"namespace":"t9"})", 404, "not_found", "namespace"},
       {"GET", "/v1/test/await", "", 400, "invalid_argument", "job"},
       {"GET", "/v1/test/await?job=x", "", 400, "invalid_argument", "job"},
       {"GET", "/v1/test/await?job=1&state=done", "", 400, "invalid_argument", "state"},
       {"GET", "/v1/test/await?job=1&timeout=1h", "", 400, "invalid_argument", "timeout"},
       {"GET", "/v1/test/await?job=99", "", 404, "not_found", ""},
       {"POST", "/v1/test/faults", R"({"lost_lease":2})", 400, "invalid_argument", "lost_lease"},
       {"PUT", "/v1/test/clock", "{}", 405, "method_not_allowed", ""},
       {"POST", "/v1/test/reset", R"({"all":true})", 400, "invalid_argument", "all"}});
}

TEST_CASE("a finish with a lost response ends its connection and was applied") {
  FaultyServer server;
  REQUIRE(server.call("POST", "/v1/test/faults", R"({"lost_finish":1,"lost_finish_of":"answer"})")
              .status == 200);
  server.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k"})");
  const std::string finish = server.claim();
  CHECK(server.call("POST", "/v1/finish", finish).status == 0);
  CHECK(has(server.call("GET", "/v1/jobs/1").body, R"("state":"completed")"));
  CHECK(has(server.call("POST", "/v1/finish", finish).body, R"("status":"ok")"));
}

TEST_CASE("a finish that is lost ends its connection, and the job runs again") {
  FaultyServer server;
  REQUIRE(server.call("POST", "/v1/test/faults", R"({"lost_finish":1,"lost_finish_of":"request"})")
              .status == 200);
  server.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k","max_attempts":2})");
  const std::string finish = server.claim();
  CHECK(server.call("POST", "/v1/finish", finish).status == 0);
  CHECK(has(server.call("POST", "/v1/finish", finish).body, R"("status":"stale")"));
  const std::string again = server.claim();  // the last attempt has no fault
  CHECK(has(server.call("POST", "/v1/finish", again).body, R"("status":"ok")"));
}

TEST_CASE("a delayed response arrives, and test routes are never delayed") {
  FaultyServer server;
  REQUIRE(server.call("POST", "/v1/test/faults", R"({"delay":{"p":1,"max":"50ms"}})").status ==
          200);
  for (int i = 0; i < 5; ++i) {
    CHECK(server.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k"})").status == 201);
    CHECK(server.call("GET", "/v1/test/clock").status == 200);
  }
}
