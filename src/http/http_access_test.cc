// Tokens at the server: access, visible data, and what ends with a token.
#include <algorithm>

#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

struct AccessServer : TestServer {
  explicit AccessServer(HttpOptions options = strict()) : TestServer(std::move(options)) {}
  static HttpOptions strict() {
    HttpOptions options;
    options.require_token = true;
    return options;
  }

  void apply(Operation operation) {
    std::atomic<int> done = 0;
    broker->submit(std::move(operation), [&](OperationResult result) {
      done = std::holds_alternative<Error>(result) ? 2 : 1;
    });
    wait_until([&] { return done != 0; });
    REQUIRE(done == 1);
  }
  // The header line of a new token.
  std::string token(const std::string& name, std::string_view scopes,
                    std::optional<Duration> lives = std::nullopt) {
    const Secret text = make_token_text(random);
    TokenRecord record;
    record.name = name;
    record.digest = *digest_of_token(text.reveal());
    record.scopes = *Scopes::parse(scopes);
    if (lives) record.expires_at = clock.now().wall + *lives;
    apply(CreateToken{record});
    return "Authorization: Bearer " + text.reveal() + "\r\n";
  }

  SystemRandom random;
};

std::string job(std::string_view queue) {
  return R"({"queue":")" + std::string(queue) +
         R"(","kind":"k","args":{"secret":"canary"},"headers":{"h":"canary"}})";
}

}  // namespace

TEST_CASE(
    "without a valid token nothing is done and nothing is revealed, not even which paths exist") {
  AccessServer access;
  Peer peer(access);
  for (const auto& [method, path] : {std::pair{"GET", "/v1/queues"},
                                     {"HEAD", "/v1/queues"},
                                     {"GET", "/nothing"},
                                     {"DELETE", "/v1/jobs"},
                                     {"GET", "/v1/queues?bad=1"},
                                     {"GET", "/metrics"},
                                     {"GET", "/openapi.json"},
                                     {"GET", "/v1/version"}}) {
    CAPTURE(path);
    const Answer answer = peer.call(method, path);
    if (answer.status == 429) continue;  // ten are free
    CHECK(answer.status == 401);
    CHECK(answer.headers.at("WWW-Authenticate") == "Bearer");
  }
  const Answer enqueue =
      Peer(access).call("POST", "/v1/jobs", job("a"), "Authorization: Bearer \r\n");
  CHECK(enqueue.status == 401);
  CHECK(access.store->queues()->empty());
}

TEST_CASE("a wrong token is refused on loopback too, where no token is required") {
  AccessServer access{HttpOptions{}};
  Peer peer(access);
  CHECK(peer.call("GET", "/v1/queues").status == 200);
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization: Bearer mst_x\r\n").status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization:\r\n").status == 401);
  CHECK(peer.call("GET", "/v1/queues", "", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")
            .status == 400);
  CHECK(Peer(access).call("GET", "/v1/queues").status == 200);
}

TEST_CASE("health is public; its details require the right to read everything") {
  AccessServer access;
  const std::string reader = access.token("reader", "read");
  Peer peer(access);
  CHECK(peer.call("GET", "/healthz").status == 200);
  CHECK(peer.call("GET", "/readyz").body == R"({"status":"ready"})");
  CHECK(peer.call("GET", "/readyz", "", "Authorization: Bearer x\r\n").status == 200);
  CHECK(has(peer.call("GET", "/readyz", "", reader).body, "durability"));
}

TEST_CASE("an address with too many failures must wait; its valid tokens pass") {
  AccessServer access;
  const std::string good = access.token("good", "read");
  Peer peer(access);
  for (int i = 0; i < 10; ++i) CHECK(peer.call("GET", "/v1/queues").status == 401);
  const Answer late = peer.call("GET", "/v1/queues");
  CHECK(late.status == 429);
  CHECK(late.headers.contains("Retry-After"));
  CHECK(peer.call("GET", "/v1/queues", "", good).status == 200);
  CHECK(peer.call("GET", "/healthz").status == 200);
}

TEST_CASE("the server does not wait for a body that the caller may not send") {
  AccessServer access;
  const std::string reader = access.token("reader", "read");
  for (const std::string& header : {std::string(), reader}) {
    Peer peer(access);
    peer.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n" + header +
              "\r\n{");
    const Answer answer = peer.receive();
    CHECK(answer.status == (header.empty() ? 401 : 403));
    CHECK(answer.headers.at("Connection") == "close");
  }
}

TEST_CASE("jobs of other queues are hidden: by id, in lists and in waits") {
  AccessServer access;
  const std::string root = access.token("root", "enqueue read read:payload");
  const std::string mine = access.token("mine", "enqueue=a read=a result=c");
  Peer peer(access);
  for (const char* queue : {"a", "b", "c"}) peer.call("POST", "/v1/jobs", job(queue), root);
  const Answer a = peer.call("GET", "/v1/jobs/1", "", mine);
  CHECK(a.status == 200);
  CHECK_FALSE(has(a.body, "canary"));
  CHECK(has(a.body, R"("args":null)"));
  CHECK(has(a.body, R"("headers":null)"));
  CHECK(has(a.body, R"("masked":true)"));
  const Answer b = peer.call("GET", "/v1/jobs/2", "", mine);
  CHECK(b.status == 404);
  std::string none = peer.call("GET", "/v1/jobs/99", "", mine).body;
  none.replace(none.find("99"), 2, "2");
  CHECK(b.body == none);
  CHECK(peer.call("GET", "/v1/jobs/2?wait=30s", "", mine).status == 404);
  const Answer c = peer.call("GET", "/v1/jobs/3", "", mine);
  CHECK(c.body == R"({"id":3,"queue":"c","state":"available","masked":true})");
  CHECK(has(peer.call("GET", "/v1/jobs/1", "", root).body, "canary"));

  const Answer queues = peer.call("GET", "/v1/queues", "", mine);
  CHECK(has(queues.body, R"("name":"a")"));
  CHECK_FALSE(has(queues.body, R"("name":"b")"));
  CHECK(peer.call("GET", "/v1/queues/b", "", mine).status == 403);
  CHECK(peer.call("POST", "/v1/jobs", job("b"), mine).status == 403);
  const std::string batch = R"({"jobs":[)" + job("a") + "," + job("b") + "]}";
  const Answer mixed = peer.call("POST", "/v1/jobs", batch, mine);
  CHECK(mixed.status == 403);
  CHECK(message_of(mixed) == R"("mine" needs the scope "enqueue=b")");
}

TEST_CASE("the result is shown to callers with result, whatever else they may see") {
  AccessServer access;
  const std::string root = access.token("root", "enqueue work");
  Peer peer(access);
  REQUIRE(peer.call("POST", "/v1/jobs", job("a"), root).status == 201);
  const Answer claimed = peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"]})", root);
  const auto jobs = decode_claim_response(claimed.body)->jobs;
  REQUIRE(jobs.size() == 1);
  const std::string done = R"({"worker":"w","results":[{"id":1,"token":)" +
                           std::to_string(jobs[0].token) +
                           R"(,"outcome":"complete","result":{"sum":7}}]})";
  REQUIRE(has(peer.call("POST", "/v1/finish", done, root).body, R"("status":"ok")"));
  const auto shown = [&](const std::string& name, std::string_view scopes) {
    return peer.call("GET", "/v1/jobs/1", "", access.token(name, scopes)).body;
  };
  for (const std::string scopes : {"result=a", "read=a result=a"}) {
    const std::string body = shown(scopes, scopes);
    CHECK(has(body, R"("result":{"sum":7})"));
    CHECK_FALSE(has(body, "canary"));
    CHECK(has(body, R"("masked":true)"));
  }
  CHECK(has(shown("reader", "read=a"), R"("result":null)"));
}

TEST_CASE("a follow-up needs the scope for its queue, as the job does") {
  AccessServer access;
  const std::string mine = access.token("mine", "enqueue=a schedule=a");
  const std::string both = access.token("both", "enqueue=a enqueue=b schedule=a schedule=b");
  Peer peer(access);
  const std::string then = R"({"queue":"a","kind":"k","then":[{"queue":"b","kind":"n"}]})";
  const std::string reply = R"({"queue":"a","kind":"k","reply_to":"b"})";
  for (const std::string& job : {then, reply}) {
    const std::string schedule = R"({"every":"1h","job":)" + job + "}";
    CHECK(message_of(peer.call("POST", "/v1/jobs", job, mine)) ==
          R"("mine" needs the scope "enqueue=b")");
    CHECK(peer.call("PUT", "/v1/schedules/s", schedule, mine).status == 403);
    CHECK(peer.call("POST", "/v1/jobs", job, both).status == 201);
    CHECK(peer.call("PUT", "/v1/schedules/s", schedule, both).status < 300);
  }
}

TEST_CASE("only a host adds jobs to the queue of job folders") {
  HttpOptions options = AccessServer::strict();
  options.job_token_key = Secret(std::string(32, 'k'));
  AccessServer access(options);
  const std::string mine = access.token("mine", "enqueue schedule work read read:payload");
  const std::string host = access.token("host", "enqueue schedule work define-exec");
  Peer peer(access);
  const std::string run =
      R"({"queue":"host","kind":"triggered/report","args":{"trigger":"Schedule - daily"}})";
  const std::string then =
      R"({"queue":"a","kind":"k","then":[{"queue":"host","kind":"triggered/report"}]})";
  for (const std::string& job :
       {run, then, std::string(R"({"queue":"a","kind":"k","reply_to":"host"})")}) {
    CAPTURE(job);
    const std::string schedule = R"({"every":"1h","job":)" + job + "}";
    const std::string trigger = R"({"http":{},"job":)" + job + "}";
    const std::string workflow = R"({"name":"w","steps":[{"name":"s","job":)" + job + "}]}";
    CHECK(message_of(peer.call("POST", "/v1/jobs", job, mine)) ==
          R"("mine" needs the scope "define-exec")");
    CHECK(peer.call("PUT", "/v1/schedules/s", schedule, mine).status == 403);
    CHECK(peer.call("PUT", "/v1/triggers/t", trigger, mine).status == 403);
    CHECK(peer.call("POST", "/v1/workflows", workflow, mine).status == 403);
    CHECK(peer.call("POST", "/v1/jobs", job, host).status == 201);
    CHECK(peer.call("PUT", "/v1/schedules/s", schedule, host).status < 300);
  }
  REQUIRE(peer.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k"})", mine).status == 201);
  const std::string clone = R"({"queue":"host"})";
  CHECK(peer.call("POST", "/v1/jobs/1/clone", clone, mine).status == 403);
  const std::string token = R"({"folder":"report"})";
  CHECK(peer.call("POST", "/v1/queues/host/job_token", token, mine).status == 403);
}

TEST_CASE("a job enqueued by a completion needs the scope for its queue") {
  AccessServer access;
  const std::string mine = access.token("mine", "enqueue=a work=a");
  const std::string both = access.token("both", "enqueue=a enqueue=b work=a");
  Peer peer(access);
  peer.call("POST", "/v1/jobs", R"({"queue":"a","kind":"k"})", mine);
  const Answer claimed = peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"]})", mine);
  const auto number = [&](std::string_view name) {
    const std::size_t at = claimed.body.find(name) + name.size();
    return claimed.body.substr(at, claimed.body.find_first_of(",}", at) - at);
  };
  const std::string done = R"({"worker":"w","results":[{"id":)" + number(R"("id":)") +
                           R"(,"token":)" + number(R"("token":)") +
                           R"(,"outcome":"complete","next":[{"queue":"b","kind":"n"}]}]})";
  CHECK(message_of(peer.call("POST", "/v1/finish", done, mine)) ==
        R"("mine" needs the scope "enqueue=b")");
  CHECK(has(peer.call("POST", "/v1/finish", done, both).body, R"("status":"ok")"));
  CHECK(has(peer.call("GET", "/v1/queues", "", access.token("r", "read")).body, R"("name":"b")"));
}

TEST_CASE("lists show payloads only of queues with read:payload") {
  AccessServer access;
  const std::string root = access.token("root", "enqueue read read:payload");
  const std::string some = access.token("some", "read read:payload=a");
  Peer peer(access);
  for (const char* queue : {"a", "b"}) peer.call("POST", "/v1/jobs", job(queue), root);
  const Answer page = peer.call("GET", "/v1/jobs?queue=b", "", some);
  CHECK(page.status == 200);
  CHECK_FALSE(has(page.body, "canary"));
  CHECK(has(page.body, R"("masked":true)"));
  CHECK(has(peer.call("GET", "/v1/jobs?queue=a", "", some).body, "canary"));
}

TEST_CASE("a caller that enqueues and waits sees the outcome, within its scopes") {
  AccessServer access;
  const std::string sender = access.token("sender", "enqueue=a");
  const std::string asker = access.token("asker", "enqueue=a result=a");
  const std::string worker = access.token("worker", "work=a");
  for (const auto& [header, result] : {std::pair{sender, false}, {asker, true}}) {
    Peer waiting(access), working(access);
    waiting.send(Peer::request("POST", "/v1/jobs?wait=30s", job("a"), header));
    const Answer claim =
        working.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"],"wait":"30s"})", worker);
    REQUIRE(has(claim.body, "canary"));
    const std::string id = claim.body.substr(claim.body.find("\"id\":") + 5, 1);
    const std::size_t at = claim.body.find("\"token\":") + 8;
    const std::string fence = claim.body.substr(at, claim.body.find_first_of(",}", at) - at);
    working.call("POST", "/v1/finish",
                 R"({"worker":"w","results":[{"id":)" + id + R"(,"token":)" + fence +
                     R"(,"outcome":"complete","result":{"r":1}}]})",
                 worker);
    const Answer done = waiting.receive();
    CAPTURE(done.body);
    CHECK(done.status == 201);
    CHECK(has(done.body, R"("state":"completed")"));
    CHECK(has(done.body, R"("result":{"r":1})") == result);
    CHECK_FALSE(has(done.body, "canary"));
  }
}

TEST_CASE("a claim of a pattern takes jobs only of the queues that the token has work for") {
  AccessServer access;
  const std::string admin = access.token("admin", "enqueue");
  const std::string worker = access.token("worker", "work=tenant/a work=tenant/b*");
  Peer peer(access);
  for (const char* queue : {"tenant/a", "tenant/b1", "tenant/c", "tenant/a2"}) {
    const std::string job = R"({"queue":")" + std::string(queue) + R"(","kind":"k"})";
    REQUIRE(peer.call("POST", "/v1/jobs", job, admin).status == 201);
  }
  const auto claim = [&](const std::string& token, const std::string& queues) {
    const std::string name = token == worker ? "w1" : "w2";
    return peer.call("POST", "/v1/claim",
                     R"({"worker":")" + name + R"(","queues":[)" + queues + "]}", token);
  };
  std::string taken;
  for (int i = 0; i < 4; ++i) {
    const Answer answer = claim(worker, R"("tenant/*")");
    REQUIRE(answer.status == 200);
    taken += answer.body;
  }
  CHECK(taken.find(R"("queue":"tenant/a")") != std::string::npos);
  CHECK(taken.find(R"("queue":"tenant/b1")") != std::string::npos);
  CHECK(taken.find("tenant/c") == std::string::npos);
  CHECK(taken.find("tenant/a2") == std::string::npos);
  CHECK(claim(worker, R"("*")").status == 200);
  const Answer refused = claim(worker, R"("other/*")");
  CHECK(refused.status == 403);
  CHECK(message_of(refused) == R"("worker" needs the scope "work=other/*")");
  CHECK(claim(worker, R"("tenant/*","other")").status == 403);
  CHECK(peer.call("POST", "/v1/finish",
                  R"({"worker":"w","results":[],"claim":{"queues":["other/*"]}})", worker)
            .status == 403);
  CHECK(claim(admin, R"("tenant/*")").status == 403);
}

TEST_CASE("a claim needs the scope for each queue that it names, also in a finish request") {
  AccessServer access;
  const std::string worker = access.token("worker", "work=a work=img-*");
  Peer peer(access);
  const auto claim = [](const char* queues) {
    return R"({"worker":"w","queues":[)" + std::string(queues) + "]}";
  };
  CHECK(peer.call("POST", "/v1/claim", claim(R"("a","img-1")"), worker).status == 200);
  const Answer refused = peer.call("POST", "/v1/claim", claim(R"("a","b")"), worker);
  CHECK(refused.status == 403);
  CHECK(message_of(refused) == R"("worker" needs the scope "work=b")");
  CHECK(peer.call("POST", "/v1/finish", R"({"worker":"w","results":[],"claim":{"queues":["b"]}})",
                  worker)
            .status == 403);
}

TEST_CASE("a parked claim ends empty when its token is revoked, and gets no job any more") {
  AccessServer access;
  const std::string worker = access.token("worker", "work=a");
  Peer peer(access);
  peer.send(
      Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["a"],"wait":"60s"})", worker));
  wait_until([&] { return access.broker->parked_claims() == 1; });
  access.apply(RevokeToken{"worker"});
  const Answer answer = peer.receive();
  CHECK(answer.status == 200);
  CHECK(answer.body == R"({"jobs":[]})");
  CHECK(answer.headers.at("Connection") == "close");
  CHECK(Peer(access).call("GET", "/v1/version", "", worker).status == 401);
}

TEST_CASE("a wait for a job ends when its token ends; other waits continue") {
  AccessServer access;
  const std::string root = access.token("root", "enqueue read");
  const std::string other = access.token("other", "work=b");
  Peer(access).call("POST", "/v1/jobs", job("a"), root);
  Peer waiting(access), parked(access);
  parked.send(
      Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["b"],"wait":"60s"})", other));
  wait_until([&] { return access.broker->parked_claims() == 1; });
  const std::string brief = access.token("brief", "read", 5s);
  waiting.send(Peer::request("GET", "/v1/jobs/1?wait=60s", "", brief));
  CHECK(waiting.receive().status == 401);
  CHECK(waiting.ended());
  CHECK(access.broker->parked_claims() == 1);
  Peer(access).call("POST", "/v1/jobs", job("b"), root);
  CHECK(has(parked.receive().body, "canary"));
}

TEST_CASE("a request whose token is revoked before its body ends is refused") {
  AccessServer access;
  const std::string sender = access.token("sender", "enqueue=a");
  Peer peer(access);
  const std::string request = Peer::request("POST", "/v1/jobs", job("a"), sender);
  peer.send(request.substr(0, request.size() - 3));
  wait_until([&] { return access.server->connections() == 1; });
  // The head has been read when another request of the same thread is answered.
  CHECK(Peer(access).call("GET", "/healthz").status == 200);
  access.apply(RevokeToken{"sender"});
  peer.send(request.substr(request.size() - 3));
  CHECK(peer.receive().status == 401);
  CHECK(access.store->queues()->empty());
}

TEST_CASE("a token has its rate") {
  HttpOptions options = AccessServer::strict();
  options.rate_per_token = 1;
  AccessServer access(options);
  const std::string reader = access.token("reader", "read");
  Peer peer(access);
  int refused = 0;
  // On a slow machine, most calls may come a second after the previous one.
  for (int i = 0; i < 100 && refused == 0; ++i) {
    const Answer answer = peer.call("GET", "/v1/version", "", reader);
    if (answer.status == 200) continue;
    ++refused;
    CHECK(answer.status == 429);
    CHECK(answer.headers.contains("Retry-After"));
  }
  CHECK(refused > 0);
}

TEST_CASE("the token of another caller's lock cannot be found by guessing fences") {
  AccessServer access;
  const std::string root = access.token("root", "lease enqueue");
  const std::string mine = access.token("mine", "lease=m-* enqueue=a");
  Peer peer(access);
  const auto enqueue = [&](const std::string& lock, int token, const std::string& header) {
    return peer
        .call("POST", "/v1/jobs",
              fmt::format(R"({{"queue":"a","kind":"k","fence":{{"lease":"{}","token":{}}}}})", lock,
                          token),
              header)
        .status;
  };
  for (const char* lock : {"l-1", "m-1"}) {
    const Answer got =
        peer.call("POST", fmt::format("/v1/leases/{}/acquire", lock), R"({"holder":"h"})", root);
    const int token = std::stoi(got.body.substr(got.body.find("\"token\":") + 8));
    const bool own = std::string(lock) == "m-1";
    CHECK(enqueue(lock, token, root) == 201);
    CHECK(enqueue(lock, token, mine) == (own ? 201 : 403));
    CHECK(enqueue(lock, token + 1, mine) == (own ? 409 : 403));
  }
}

TEST_CASE("leases and schedules of others are hidden") {
  AccessServer access;
  const std::string root = access.token("root", "lease schedule read read:payload");
  const std::string mine = access.token("mine", "lease=m-* schedule=a read=a");
  Peer peer(access);
  for (const char* name : {"l-1", "m-1", "m-2", "n-1"}) {
    CHECK(
        peer.call("POST", "/v1/leases/" + std::string(name) + "/acquire", R"({"holder":"h"})", root)
            .status == 200);
  }
  CHECK(peer.call("GET", "/v1/leases/l-1", "", mine).status == 403);
  const Answer leases = peer.call("GET", "/v1/leases?limit=1", "", mine);
  CHECK(has(leases.body, R"("name":"m-1")"));
  CHECK_FALSE(has(leases.body, "l-1"));
  CHECK(has(peer.call("GET", "/v1/leases?limit=2&after=m-1", "", mine).body, R"("next":null)"));

  const auto put = [&](const char* name, const char* queue, const std::string& header) {
    return peer
        .call("PUT", "/v1/schedules/" + std::string(name),
              R"({"every":"1h","job":)" + job(queue) + "}", header)
        .status;
  };
  CHECK(put("s-a", "a", root) == 201);
  CHECK(put("s-b", "b", root) == 201);
  CHECK(put("s-c", "b", mine) == 403);
  const Answer list = peer.call("GET", "/v1/schedules", "", mine);
  CHECK(has(list.body, "s-a"));
  CHECK_FALSE(has(list.body, "s-b"));
  CHECK_FALSE(has(list.body, "canary"));
  CHECK(has(list.body, R"("masked":true)"));
  for (const char* path :
       {"/v1/schedules/s-b", "/v1/schedules/s-b/ledger", "/v1/schedules/s-b/preview"}) {
    CHECK(peer.call("GET", path, "", mine).status == 404);
  }
  CHECK_FALSE(has(peer.call("GET", "/v1/schedules/s-a", "", mine).body, "canary"));
  CHECK(has(peer.call("GET", "/v1/schedules/s-a", "", root).body, "canary"));
}

TEST_CASE("jobs of other queues cannot be finished, renewed, cancelled, retried or removed") {
  AccessServer access;
  const std::string root = access.token("root", "enqueue read admin work schedule");
  const std::string other = access.token("other", "work=b admin=b schedule=b read=b");
  Peer peer(access);
  peer.call("POST", "/v1/jobs", job("a"), root);
  peer.call("POST", "/v1/jobs", job("a"), root);
  CHECK(has(peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"]})", root).body,
            R"("id":1)"));
  CHECK(
      has(peer.call("POST", "/v1/finish",
                    R"({"worker":"w","results":[{"id":1,"token":1,"outcome":"complete"}]})", other)
              .body,
          "not_found"));
  CHECK(has(
      peer.call("POST", "/v1/renew", R"({"worker":"x","leases":[{"id":1,"token":1}]})", other).body,
      R"("lost":[1])"));
  CHECK(peer.call("POST", "/v1/jobs/2/cancel", "", other).status == 404);
  CHECK(peer.call("POST", "/v1/jobs/2/retry", "", other).status == 404);
  CHECK(peer.call("GET", "/v1/jobs", "", other).body ==
        R"({"jobs":[],"next_cursor":null,"examined":0,"of":0})");
  CHECK(peer.call("POST", "/v1/queues/a/pause", "", other).status == 403);
  peer.call("PUT", "/v1/schedules/s", R"({"every":"1h","job":)" + job("a") + "}", root);
  for (const auto& [method, path, body] :
       {std::tuple{"DELETE", "/v1/schedules/s", ""},
        {"POST", "/v1/schedules/s/pause", ""},
        {"POST", "/v1/schedules/s/resume", ""},
        {"POST", "/v1/schedules/s/trigger", ""},
        {"POST", "/v1/schedules/s/wake", ""},
        {"POST", "/v1/schedules/s/backfill",
         R"({"from":"2026-01-01T00:00:00Z","to":"2026-01-01T02:00:00Z"})"},
        {"PUT", "/v1/schedules/s/timer", R"({"timeout":"5m"})"}}) {
    CAPTURE(path);
    CHECK(peer.call(method, path, body, other).status == 404);
  }
  CHECK(peer.call("PUT", "/v1/schedules/s", R"({"every":"2h","job":)" + job("b") + "}", other)
            .status == 403);
  CHECK(has(peer.call("GET", "/v1/jobs/1", "", root).body, R"("state":"running")"));
  CHECK(peer.call("POST", "/v1/jobs/2/cancel", "", root).status == 200);
}

TEST_CASE("tokens are made and revoked over HTTP, and are shown once") {
  AccessServer access;
  const std::string root = access.token("root", "admin enqueue=a* read");
  const std::string small = access.token("small", "admin=a read");
  Peer peer(access);
  const std::string wanted = R"({"name":"ci","scopes":["enqueue=ab","read=x"],"rate":9})";
  CHECK(peer.call("POST", "/v1/tokens", wanted, small).status == 403);
  CHECK(peer.call("GET", "/v1/tokens", "", small).status == 403);
  for (const char* too_much :
       {R"({"name":"n","scopes":["enqueue"]})", R"({"name":"n","scopes":["enqueue=b"]})",
        R"({"name":"n","scopes":["read","define-exec=x"]})",
        R"({"name":"n","scopes":["read:payload"]})"}) {
    const Answer refused = peer.call("POST", "/v1/tokens", too_much, root);
    CHECK(refused.status == 403);
    CHECK(field_of(refused) == "scopes");
  }
  const Answer made = peer.call("POST", "/v1/tokens", wanted, root);
  REQUIRE(made.status == 201);
  CHECK(made.headers.at("Cache-Control") == "no-store");
  const std::size_t at = made.body.find("mst_");
  REQUIRE(at != std::string::npos);
  const std::string text = made.body.substr(at, kTokenBytes);
  const std::string header = "Authorization: Bearer " + text + "\r\n";
  CHECK(peer.call("POST", "/v1/jobs", job("ab"), header).status == 201);
  CHECK(peer.call("POST", "/v1/jobs", job("ac"), header).status == 403);
  const Answer list = peer.call("GET", "/v1/tokens", "", root);
  CHECK(has(list.body, R"("name":"ci")"));
  CHECK(has(list.body, R"("created_by":"root")"));
  CHECK_FALSE(has(list.body, text.substr(4)));
  CHECK_FALSE(has(list.body, to_hex(*digest_of_token(text))));
  CHECK(peer.call("POST", "/v1/tokens", wanted, root).status == 409);
  CHECK(peer.call("DELETE", "/v1/tokens/ci", "", root).status == 200);
  CHECK(peer.call("DELETE", "/v1/tokens/unknown", "", root).status == 404);
  CHECK(peer.call("POST", "/v1/jobs", job("ab"), header).status == 401);
}

TEST_CASE("a request from a proxy on this machine needs a token, whichever header it sets") {
  AccessServer access{HttpOptions{}};
  Peer peer(access);
  CHECK(peer.call("GET", "/v1/queues").status == 200);
  for (const std::string header : {"X-Forwarded-For: 192.0.2.7", "Forwarded: for=192.0.2.7",
                                   "x-real-ip: 192.0.2.7", "Via: 1.1 proxy", "X-Forwarded-For: "}) {
    CAPTURE(header);
    const Answer refused = peer.call("GET", "/v1/queues", "", header + "\r\n");
    CHECK(refused.status == 401);
    CHECK(has(refused.body, "proxy"));
    const std::string good = access.token("t" + std::to_string(header.size()), "read");
    CHECK(peer.call("GET", "/v1/queues", "", header + "\r\n" + good).status == 200);
    CHECK(peer.call("GET", "/healthz", "", header + "\r\n").status == 200);
  }
}

TEST_CASE("no caller can create a token that outlives the caller's own") {
  AccessServer access;
  const std::string root = access.token("root", "admin read");
  Peer peer(access);
  const Answer made =
      peer.call("POST", "/v1/tokens",
                R"({"name":"short","scopes":["admin","read"],"expires_in":"1d"})", root);
  REQUIRE(made.status == 201);
  const std::size_t at = made.body.find("mst_");
  const std::string mine = "Authorization: Bearer " + made.body.substr(at, kTokenBytes) + "\r\n";
  for (const char* longer : {R"({"name":"n","scopes":["read"]})",
                             R"({"name":"n","scopes":["read"],"expires_in":"2d"})"}) {
    const Answer refused = peer.call("POST", "/v1/tokens", longer, mine);
    CHECK(refused.status == 403);
    CHECK(field_of(refused) == "expires_in");
  }
  CHECK(peer.call("POST", "/v1/tokens", R"({"name":"n","scopes":["read"],"expires_in":"1h"})", mine)
            .status == 201);
}

TEST_CASE("the audit shows who changed what, from where, and the previous value") {
  AccessServer access;
  const std::string root = access.token("root", "admin enqueue read schedule work");
  Peer peer(access);
  peer.call("POST", "/v1/jobs", job("a"), root);
  peer.call("POST", "/v1/queues/a/pause", "", root);
  peer.call("POST", "/v1/queues/a/pause", "", root);  // nothing is different
  peer.call("PUT", "/v1/queues/a", R"({"retention":{"dead":"7d"}})", root);
  peer.call("POST", "/v1/jobs/1/cancel", "", root);
  peer.call("POST", "/v1/jobs/77/cancel", "", root);  // refused
  peer.call("PUT", "/v1/schedules/s", R"({"every":"1h","job":)" + job("a") + "}", root);
  peer.call("POST", "/v1/schedules/s/pause", "", root);
  peer.call("POST", "/v1/schedules/s/trigger", "", root);
  peer.call("DELETE", "/v1/schedules/s", "", root);
  peer.call("POST", "/v1/dead/redrive", R"({"queue":"a"})", root);
  peer.call("POST", "/v1/tokens", R"({"name":"ci","scopes":["read"]})", root);
  peer.call("DELETE", "/v1/tokens/ci", "", root);
  const auto page = access.store->audit({}, AuditOrder::oldest_first, 100, 0);
  REQUIRE(page.has_value());
  std::vector<std::pair<std::string, std::string>> seen;
  for (const AuditRecord& record : page->records) {
    CHECK(record.who == "root");
    CHECK(record.from == "127.0.0.1");
    CHECK_FALSE(has(record.before + record.after, "canary"));
    seen.emplace_back(record.action, record.object);
  }
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"pause_queue", "queue/a"},        {"set_retention", "queue/a"},
      {"cancel_job", "job/1"},           {"put_schedule", "schedule/s"},
      {"pause_schedule", "schedule/s"},  {"trigger_schedule", "schedule/s"},
      {"remove_schedule", "schedule/s"}, {"redrive", "queue/a"},
      {"create_token", "token/ci"},      {"revoke_token", "token/ci"}};
  CHECK(seen == expected);
  CHECK(has(page->records[0].before, R"("paused":false)"));
  CHECK(has(page->records[0].after, R"("paused":true)"));
  CHECK(page->records[8].before.empty());

  const Answer answer =
      peer.call("GET", "/v1/audit?object=queue%2Fa&order=oldest_first&limit=1", "", root);
  CHECK(has(answer.body, R"("action":"pause_queue")"));
  CHECK_FALSE(has(answer.body, "set_retention"));
  CHECK(has(peer.call("GET", "/v1/audit?who=root&limit=1", "", root).body, "revoke_token"));
  CHECK(peer.call("GET", "/v1/audit?order=sideways", "", root).status == 400);
  CHECK(has(peer.call("GET", "/v1/audit/head", "", root).body, R"("seq":10)"));
}

TEST_CASE("with audit_all the changes of workers are recorded too") {
  HttpOptions options = AccessServer::strict();
  options.audit_all = true;
  AccessServer access(options);
  const std::string root = access.token("root", "enqueue work");
  Peer peer(access);
  peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"]})", root);  // finds nothing
  peer.call("POST", "/v1/jobs", job("a"), root);
  const Answer claim = peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["a"]})", root);
  const std::size_t at = claim.body.find("\"token\":") + 8;
  const std::string fence = claim.body.substr(at, claim.body.find_first_of(",}", at) - at);
  peer.call("POST", "/v1/finish",
            R"({"worker":"w","results":[{"id":1,"token":)" + fence + R"(,"outcome":"complete"}]})",
            root);
  const auto page = access.store->audit({}, AuditOrder::oldest_first, 100, 0);
  REQUIRE(page.has_value());
  REQUIRE(page->records.size() == 3);
  CHECK(page->records[0].action == "enqueue");
  CHECK(page->records[0].after == R"({"queues":["a"],"jobs":1})");
  CHECK(page->records[1].action == "claim");
  CHECK(page->records[1].after == R"({"queues":["a"],"worker":"w"})");
  CHECK(page->records[2].action == "finish");
  CHECK(page->records[2].after == R"({"worker":"w","jobs":[1],"count":1})");
}

TEST_CASE("a trigger on ends requires read:payload for the queue of those jobs") {
  AccessServer access;
  Peer peer(access);
  const std::string some = access.token("some", "schedule=then read:payload=mine");
  const std::string every = access.token("every", "schedule=then read:payload");
  const auto put = [&](const std::string& who, const std::string& ended) {
    return peer
        .call("PUT", "/v1/triggers/t",
              R"({"ended":)" + ended + R"(,"job":{"queue":"then","kind":"k"}})", who)
        .status;
  };
  CHECK(put(some, R"({"queue":"theirs"})") == 403);
  CHECK(put(some, "{}") == 403);
  CHECK(put(some, R"({"queue":"mine"})") == 201);
  CHECK(put(every, "{}") == 200);
}
