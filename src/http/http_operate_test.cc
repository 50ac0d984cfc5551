// Operation over real sockets: workers, pauses, the next hours, health.
#include "api/pause_shapes.h"
#include "api/schedule_shapes.h"
#include "env/process_stats.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kHourly = R"({"every":"1h","job":{"queue":"q","kind":"k"}})";

Answer put_hourly(Peer& peer, std::string_view name) {
  return peer.call("PUT", "/v1/schedules/" + std::string(name), kHourly);
}

// Repeats the request until the response matches.
template <class Condition>
bool soon(TestServer& server, Condition holds) {
  const Instant end = server.clock.now().instant + 60s;
  while (!holds()) {
    if (server.clock.now().instant > end) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a worker's name belongs to its first caller while the worker is known") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  const std::string a = scoped_token(s, "work=a admin=a", "a");
  const std::string b = scoped_token(s, "work=b admin=b", "b");
  const std::string successor = scoped_token(s, "work=a work=c", "successor");
  Peer peer(s);
  const auto claim = [](const std::string& queue) {
    return R"({"worker":"w","queues":[")" + queue + R"("]})";
  };
  CHECK(peer.call("POST", "/v1/claim", claim("a"), a).status == 200);
  const Answer refused = peer.call("POST", "/v1/claim", claim("b"), b);
  CHECK(refused.status == 403);
  CHECK(field_of(refused) == "worker");
  CHECK(peer.call("POST", "/v1/queues/b/sessions/accept", R"({"worker":"w"})", b).status == 403);
  for (const std::string command : {"stop", "quiet", "resume"})
    CHECK(peer.call("POST", "/v1/workers/w/" + command, "", b).status == 404);
  CHECK(peer.call("POST", "/v1/claim", claim("a"), a).status == 200);
  // A new token with the same queues may use the name, as after a rotation.
  CHECK(peer.call("POST", "/v1/claim", claim("c"), successor).status == 200);
  CHECK(peer.call("POST", "/v1/claim", claim("a"), a).status == 403);
  CHECK(peer.call("POST", "/v1/claim", claim("a"), successor).status == 200);
  // The name is free when the server has forgotten the worker.
  s.clock.advance(std::chrono::minutes(10));
  wait_until([&] {
    peer.call("POST", "/v1/claim", R"({"worker":"v","queues":["b"]})", b);  // the commit loop turns
    return peer.call("POST", "/v1/claim", claim("b"), b).status == 200;
  });
}

TEST_CASE("a renewal is not refused because of its worker's name, and obeys no other caller") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  const std::string a = scoped_token(s, "work=a admin=a enqueue=a", "a");
  const std::string b = scoped_token(s, "work=b admin=b", "b");
  const std::string narrowed = scoped_token(s, "work=a", "narrowed");
  const std::string all = scoped_token(s, "work admin enqueue", "all");
  Peer peer(s);
  const auto claim = [](const std::string& worker, const std::string& queue) {
    return fmt::format(R"({{"worker":"{}","queues":["{}"]}})", worker, queue);
  };
  REQUIRE(peer.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k"})", a).status == 201);
  const Answer held = peer.call("POST", "/v1/claim", claim("w", "a"), a);
  const auto claimed = decode_claim_response(held.body);
  REQUIRE(claimed);
  REQUIRE(claimed->jobs.size() == 1);
  const std::string renewal = fmt::format(
      R"({{"worker":"WORKER","leases":[{{"id":1,"token":{}}}]}})", claimed->jobs[0].token);
  const auto renew = [&](const std::string& worker, const std::string& by) {
    std::string body = renewal;
    return peer.call("POST", "/v1/renew", body.replace(body.find("WORKER"), 6, worker), by);
  };
  // As after a restart: the server knows a worker from its renewals, and not its queues.
  CHECK(has(renew("again", a).body, R"("renewed":[{"id":1,)"));
  CHECK(peer.call("POST", "/v1/claim", claim("again", "b"), b).status == 403);
  CHECK(peer.call("POST", "/v1/workers/again/stop", "", b).status == 404);
  CHECK_FALSE(has(peer.call("POST", "/v1/claim", claim("again", "a"), a).body, "terminate"));
  // Another caller has the name: the renewal is made, without that caller's command.
  CHECK(peer.call("POST", "/v1/claim", claim("first", "b"), b).status == 200);
  CHECK(peer.call("POST", "/v1/workers/first/stop", "", b).status == 200);
  const Answer renewed = renew("first", a);
  CHECK(has(renewed.body, R"("renewed":[{"id":1,)"));
  CHECK(has(renewed.body, R"("terminate":false)"));
  const char* const stuck = R"({"worker":"first","leases":[],"stuck":7})";
  CHECK(peer.call("POST", "/v1/renew", stuck, a).status == 200);
  CHECK_FALSE(has(peer.call("GET", "/v1/workers", "", all).body, R"("stuck":7)"));
  CHECK(peer.call("POST", "/v1/claim", claim("first", "a"), a).status == 403);
  // A caller with all rights used the name, for other queues.
  CHECK(peer.call("POST", "/v1/claim", claim("w", "c"), all).status == 200);
  CHECK(has(renew("w", a).body, R"("renewed":[{"id":1,)"));
  // A successor without a claim needs the rights of the first caller.
  CHECK(has(renew("old", a).body, R"("renewed":[{"id":1,)"));
  CHECK(peer.call("POST", "/v1/claim", claim("old", "a"), narrowed).status == 403);
  CHECK(peer.call("POST", "/v1/claim", claim("old", "a"), all).status == 200);
}

TEST_CASE("workers show their reported details, also from a claim in a finish, and keep them") {
  TestServer server;
  Peer peer(server);
  peer.call("POST", "/v1/claim",
            R"({"worker":"w","queues":["q"],"host":"web-7","pid":4711,"version":"v1.4",)"
            R"("language":"Python 3.11.2","slots":8})");
  auto workers = decode_workers(peer.call("GET", "/v1/workers").body);
  REQUIRE(workers);
  REQUIRE(workers->size() == 1);
  CHECK(workers->at(0).facts == WorkerFacts{"web-7", 4711, "v1.4", "Python 3.11.2", 8});
  peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"]})");
  CHECK(has(peer.call("GET", "/v1/workers").body, R"("host":"web-7","pid":4711)"));
  peer.call("POST", "/v1/finish",
            R"({"worker":"w","results":[],"claim":{"queues":["q"],"version":"v1.5"}})");
  workers = decode_workers(peer.call("GET", "/v1/workers").body);
  CHECK(workers->at(0).facts.version == "v1.5");
  const Answer refused =
      peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"slots":0})");
  CHECK(refused.status == 400);
  CHECK(has(refused.body, R"("field":"slots")"));
}

TEST_CASE("workers show why they claim nothing, and how many of their handlers are stuck") {
  TestServer server;
  Peer peer(server);
  peer.call("POST", "/v1/claim",
            R"({"worker":"w","queues":["q"],"host":"h","trouble":"no program","stuck":2})");
  const auto listed = [&] { return decode_workers(peer.call("GET", "/v1/workers").body)->at(0); };
  CHECK(listed().facts.trouble == "no program");
  CHECK(listed().facts.stuck == 2);
  peer.call("POST", "/v1/renew", R"({"worker":"w","stuck":3})");
  CHECK(listed().facts.stuck == 3);
  CHECK(listed().facts.host == "h");
  peer.call("POST", "/v1/renew", R"({"worker":"w"})");
  CHECK(listed().facts.stuck == 3);
  peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"host":"h"})");
  CHECK(listed().facts == WorkerFacts{.host = "h"});
  const Answer refused = peer.call("POST", "/v1/renew", R"({"worker":"w","stuck":-1})");
  CHECK(refused.status == 400);
  CHECK(field_of(refused) == "stuck");
}

TEST_CASE("queues are listed page by page") {
  TestServer server;
  Peer peer(server);
  for (const char* queue : {"a", "b", "c"})
    peer.call("POST", "/v1/jobs", fmt::format(R"({{"queue":"{}","kind":"k"}})", queue));
  const auto first = decode_queues(peer.call("GET", "/v1/queues?limit=2").body);
  REQUIRE(first);
  CHECK(first->items.size() == 2);
  CHECK(first->next == "b");
  const auto rest = decode_queues(peer.call("GET", "/v1/queues?limit=2&after=b").body);
  CHECK(rest->items.size() == 1);
  CHECK(rest->next.empty());
  CHECK(peer.call("GET", "/v1/queues?limit=0").status == 400);
  CHECK(peer.call("GET", "/v1/queues?limit=1001").status == 400);
}

TEST_CASE("a pause of a queue is shown with reason, author and end, and ends by itself") {
  TestServer server;
  Peer peer(server);
  const Answer made = peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  const Answer paused =
      peer.call("POST", "/v1/queues/q/pause", R"({"reason":"disk is full","for":"1h"})");
  REQUIRE_MESSAGE(paused.status == 200, paused.body);
  CHECK(has(paused.body, R"("until":)"));
  auto queue = decode_queue(peer.call("GET", "/v1/queues/q").body);
  REQUIRE(queue);
  REQUIRE(queue->pause);
  CHECK(queue->pause->reason == "disk is full");
  CHECK(queue->pause->by == "local");
  CHECK(queue->pause->until);
  const Answer why = peer.call("GET", "/v1/jobs/1/why");
  CHECK(has(why.body, "paused by local since"));
  CHECK(has(why.body, "disk is full"));
  CHECK(has(why.body, R"("until":)"));
  CHECK(has(peer.call("GET", "/v1/audit").body, R"("reason":"disk is full")"));

  // The job is handed out when the pause ends, without a request.
  REQUIRE(peer.call("POST", "/v1/queues/q/pause", R"({"for":"300ms"})").status == 200);
  const Answer claimed =
      peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"wait":"30s"})");
  CHECK(has(claimed.body, R"("kind":"k")"));
  CHECK(has(peer.call("GET", "/v1/queues/q").body, R"("pause":null)"));
  CHECK(has(peer.call("GET", "/v1/audit").body, R"("who":"mainspring")"));
  CHECK(peer.call("POST", "/v1/queues/q/pause", R"({"until":"2020-01-01T00:00:00Z"})").status ==
        400);
}

TEST_CASE("many schedules are paused and resumed by name, by prefix, or all") {
  TestServer server;
  Peer peer(server);
  for (const char* name : {"night-a", "night-b", "day"})
    REQUIRE(put_hourly(peer, name).status == 201);
  const auto change = [&](std::string_view verb, std::string_view body) {
    const Answer answer = peer.call("POST", "/v1/schedules/" + std::string(verb), body);
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return *decode_schedule_changes(answer.body);
  };
  using Names = std::vector<std::string>;
  auto changes = change("pause", R"({"prefix":"night","reason":"migration"})");
  CHECK(changes.changed == Names{"night-a", "night-b"});
  CHECK(has(peer.call("GET", "/v1/schedules/night-a").body, R"("paused_reason":"migration")"));
  changes = change("pause", R"({"names":["day","night-a","none"]})");
  CHECK(changes.changed == Names{"day"});
  CHECK(changes.unchanged == Names{"night-a"});
  CHECK(changes.missing == Names{"none"});
  CHECK(decode_upcoming(peer.call("GET", "/v1/upcoming").body)->ticks.empty());
  changes = change("resume", R"({"all":true})");
  CHECK(changes.changed == Names{"day", "night-a", "night-b"});
  CHECK(has(peer.call("GET", "/v1/audit?object=schedule%2Fday").body,
            R"("action":"resume_schedule")"));
  CHECK(peer.call("POST", "/v1/schedules/pause", "{}").status == 400);
  CHECK(peer.call("POST", "/v1/schedules/pause", R"({"names":["a"],"all":true})").status == 400);
}

TEST_CASE("the next hours are one answer: ticks of all schedules in order, and due jobs") {
  TestServer server;
  Peer peer(server);
  REQUIRE(put_hourly(peer, "hourly").status == 201);
  REQUIRE(
      peer.call("PUT", "/v1/schedules/often", R"({"every":"1m","job":{"queue":"q","kind":"k"}})")
          .status == 201);
  peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k","delay":"30m"})");
  const Answer answer = peer.call("GET", "/v1/upcoming?within=24h");
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const auto upcoming = decode_upcoming(answer.body);
  REQUIRE(upcoming);
  CHECK(upcoming->to - upcoming->from == 24h);
  const auto of = [&](std::string_view name) {
    return std::count_if(upcoming->ticks.begin(), upcoming->ticks.end(),
                         [&](const UpcomingTick& tick) { return tick.schedule == name; });
  };
  CHECK(of("hourly") >= 23);  // a frequent one does not hide it
  CHECK(of("often") == kMaxTicksOfOne);
  CHECK(upcoming->cut == std::vector<std::string>{"often"});
  CHECK(upcoming->truncated);
  CHECK(std::is_sorted(upcoming->ticks.begin(), upcoming->ticks.end(),
                       [](const auto& a, const auto& b) { return a.nominal < b.nominal; }));
  REQUIRE(upcoming->due.size() == 1);
  CHECK(upcoming->due[0].jobs == 1);
  CHECK(decode_upcoming(peer.call("GET", "/v1/upcoming?limit=3").body)->ticks.size() == 3);
  CHECK_FALSE(decode_upcoming(peer.call("GET", "/v1/upcoming?within=1m").body)->truncated);
  for (const char* bad : {"within=0s", "within=8d", "within=soon", "limit=0", "limit=10001"})
    CHECK_MESSAGE(peer.call("GET", std::string("/v1/upcoming?") + bad).status == 400, bad);
}

TEST_CASE("probes: alive, ready, and each part of a healthy server") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("GET", "/livez").body == R"({"status":"live"})");
  CHECK(peer.call("GET", "/readyz").status == 200);
  CHECK(!has(peer.call("GET", "/healthz?verbose=false").body, "parts"));
  for (const char* path : {"/healthz?verbose", "/healthz?verbose=true"}) {
    const Answer answer = peer.call("GET", path);
    CHECK(answer.status == 200);
    CHECK(has(answer.body, R"({"name":"loops","core":true,"status":"ok")"));
    CHECK(has(answer.body, R"({"name":"store","core":true,"status":"ok")"));
    CHECK(has(answer.body, R"("name":"clock","core":false)"));
    CHECK(has(answer.body, R"("name":"leader","core":false)"));
    CHECK(has(answer.body, fmt::format(R"("limits":{{"open_files":{},"max_connections":{}}}}})",
                                       open_file_limit(), HttpOptions{}.max_connections)));
  }
}

TEST_CASE("many probes cost one look at the store") {
  TestServer server;
  Peer peer(server);
  peer.call("GET", "/healthz?verbose");
  const std::int64_t commits = server.store->commits(), reads = server.store->reads();
  for (int i = 0; i < 200; ++i) {
    peer.call("GET", "/healthz?verbose");
    peer.call("GET", "/livez");
    peer.call("GET", "/readyz");
  }
  // Evaluated at most once per second, however slow the machine is.
  CHECK(server.store->commits() - commits <= 10);
  CHECK(server.store->reads() - reads <= 200);
}

TEST_CASE("a core part that fails fails the server, a minor one only warns") {
  HttpOptions options;
  std::atomic<PartState> disk{PartState::ok};
  options.health_parts = {[&] {
    return HealthPart{.name = "disk", .state = disk.load(), .message = "64 MiB are free"};
  }};
  std::atomic<bool> broken{false};
  options.health_parts.emplace_back([&] {
    HealthPart part{.name = "database", .core = true};
    if (broken) part.state = PartState::fail, part.message = "the database is not reachable";
    return part;
  });
  TestServer server(options);
  Peer peer(server);
  disk = PartState::fail;
  const auto status = [&](std::string_view expected) {
    return soon(server, [&] { return has(peer.call("GET", "/healthz?verbose").body, expected); });
  };
  CHECK(status(R"({"status":"warn")"));
  CHECK(peer.call("GET", "/readyz").status == 200);
  broken = true;
  CHECK(status(R"({"status":"fail","error":{"code":"unavailable","message":"database: the)"));
  CHECK(peer.call("GET", "/healthz?verbose").status == 503);
  CHECK(peer.call("GET", "/readyz").status == 503);
  CHECK(peer.call("GET", "/livez").status == 200);  // a restart would not help
  broken = false;
  CHECK(soon(server, [&] { return peer.call("GET", "/readyz").status == 200; }));
}

TEST_CASE("an operator quiets, resumes and stops a worker, and the audit records it") {
  TestServer server;
  Peer peer(server), worker(server);
  const auto claim = [&](std::string_view wait) {
    worker.send(
        Peer::request("POST", "/v1/claim",
                      fmt::format(R"({{"worker":"web/1","queues":["q"],"wait":"{}"}})", wait)));
  };
  claim("30s");
  REQUIRE(soon(server, [&] { return has(peer.call("GET", "/v1/workers").body, "web/1"); }));
  CHECK(has(peer.call("GET", "/v1/workers").body, R"("command":null)"));
  const Answer quiet = peer.call("POST", "/v1/workers/web%2F1/quiet");
  CHECK(quiet.status == 200);
  const auto now = decode_worker(quiet.body);
  REQUIRE(now);
  CHECK(now->id == "web/1");
  CHECK(now->command == WorkerCommand::quiet);
  CHECK(worker.receive().body == R"({"jobs":[],"quiet":true,"terminate":false})");
  peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  const auto renewal = [&] {
    return peer.call("POST", "/v1/renew", R"({"worker":"web/1","leases":[]})").body;
  };
  CHECK(has(renewal(), R"("quiet":true,"terminate":false)"));
  CHECK(has(
      peer.call("POST", "/v1/finish", R"({"worker":"web/1","results":[],"claim":{"queues":["q"]}})")
          .body,
      R"("jobs":[],"quiet":true)"));
  CHECK(has(peer.call("POST", "/v1/workers/web%2F1/resume").body, R"("command":null)"));
  CHECK(has(renewal(), R"("quiet":false)"));
  claim("0s");
  CHECK(has(worker.receive().body, R"("kind":"k")"));
  CHECK(has(peer.call("POST", "/v1/workers/web%2F1/stop").body, R"("command":"stop")"));
  CHECK(has(renewal(), R"("quiet":true,"terminate":true)"));
  const Answer resumed = peer.call("POST", "/v1/workers/web%2F1/resume");
  CHECK(resumed.status == 409);
  CHECK(has(resumed.body, "cannot be resumed"));
  const Answer missing = peer.call("POST", "/v1/workers/unknown/stop");
  CHECK(missing.status == 404);
  CHECK(has(missing.body, "mainspring workers"));
  const std::string audit = peer.call("GET", "/v1/audit").body;
  CHECK(has(audit, R"("action":"quiet_worker","object":"worker/web/1")"));
  CHECK(has(audit, R"("after":{"command":"quiet"})"));
  CHECK(has(audit, R"("action":"resume_worker","object":"worker/web/1")"));
  CHECK(has(audit, R"("after":{"command":null})"));
  CHECK(has(audit, R"("action":"stop_worker","object":"worker/web/1")"));
}
