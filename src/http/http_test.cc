// The server over real sockets: every route, every refusal, limits, hostile peers, parking,
// stopping.
#include <sys/resource.h>

#include <thread>

#include "api/json.h"
#include "api/shapes.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

JobId enqueue(Peer& peer, std::string_view body = R"({"queue":"q","kind":"k"})") {
  const Answer answer = peer.call("POST", "/v1/jobs", body);
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
  return decode_enqueue_response(answer.body)->jobs.front().id;
}

ClaimResult claim(Peer& peer, std::string_view body = R"({"worker":"w","queues":["q"]})") {
  const Answer answer = peer.call("POST", "/v1/claim", body);
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  auto result = decode_claim_response(answer.body);
  REQUIRE(result);
  return std::move(*result);
}

std::string finish_body(const ClaimedJob& job, std::string_view outcome) {
  return R"({"worker":"w","results":[{"id":)" + std::to_string(job.id) + R"(,"token":)" +
         std::to_string(job.token) + "," + std::string(outcome) + "}]}";
}

}  // namespace

TEST_CASE("the life of a job over HTTP: enqueued, claimed, renewed, finished, read") {
  TestServer server;
  Peer peer(server);
  const Answer created =
      peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"thumbnail","args":{"path": "a.jpg"}})");
  CHECK(created.status == 201);
  CHECK(created.headers.at("Content-Type") == "application/json");
  const JobId id = decode_enqueue_response(created.body)->jobs.front().id;
  CHECK(created.body == R"({"id":)" + std::to_string(id) + R"(,"state":"available"})");

  const ClaimResult claimed = claim(peer, R"({"worker":"w","queues":["q"],"max":10})");
  REQUIRE(claimed.jobs.size() == 1);
  const ClaimedJob& job = claimed.jobs[0];
  CHECK(job.id == id);
  CHECK(job.args == R"({"path": "a.jpg"})");

  const Answer renewed =
      peer.call("POST", "/v1/renew",
                R"({"worker":"w","leases":[{"id":)" + std::to_string(id) + R"(,"token":)" +
                    std::to_string(job.token) +
                    R"(,"progress":{"value":0.5,"text":"half"},"checkpoint":{"at":7}},)"
                    R"({"id":999,"token":1}]})");
  CHECK(renewed.status == 200);
  auto renewal = decode_renew_response(renewed.body);
  REQUIRE(renewal);
  CHECK(renewal->renewed.size() == 1);
  CHECK(renewal->lost == std::vector<JobId>{999});

  const Answer finished =
      peer.call("POST", "/v1/finish", finish_body(job, R"("outcome":"complete","result":[1, 2])"));
  CHECK(finished.body == R"({"results":[{"id":)" + std::to_string(id) + R"(,"status":"ok"}]})");
  ClaimedJob other = job;
  ++other.token;
  const Answer stale =
      peer.call("POST", "/v1/finish", finish_body(other, R"("outcome":"complete")"));
  CHECK(stale.body == R"({"results":[{"id":)" + std::to_string(id) + R"(,"status":"stale"}]})");

  const Answer read = peer.call("GET", "/v1/jobs/" + std::to_string(id));
  CHECK(read.status == 200);
  auto kept = decode_job(read.body);
  REQUIRE(kept);
  CHECK(kept->state == JobState::completed);
  CHECK(kept->result == "[1, 2]");
  CHECK(kept->checkpoint == R"({"at":7})");
  CHECK(kept->finished_at);
}

TEST_CASE("a deferred job shows what it waits for and is claimed by its id") {
  TestServer server;
  Peer peer(server);
  peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  const ClaimedJob job = claim(peer, R"({"worker":"w","queues":["q"]})").jobs.at(0);
  CHECK(peer.call("POST", "/v1/finish", finish_body(job, R"("outcome":"defer","reason":"asked")"))
            .status == 200);
  const auto shown = decode_job(peer.call("GET", "/v1/jobs/1").body);
  CHECK(shown->state == JobState::waiting);
  CHECK(shown->deferred);
  CHECK(shown->reason == "asked");
  CHECK(peer.call("GET", "/v1/jobs/1/why").body.find(R"("gate":"deferred")") != std::string::npos);
  CHECK(claim(peer, R"({"worker":"w","queues":["q"]})").jobs.empty());
  CHECK(peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["r"],"job":1})").status == 404);
  const auto got = claim(peer, R"({"worker":"w","queues":["q"],"job":1})").jobs;
  REQUIRE(got.size() == 1);
  CHECK(got[0].deferred);
  CHECK(peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"job":1})").status == 409);
}

TEST_CASE("a renewal carries step results, and the next holder reads them") {
  TestServer server;
  Peer peer(server);
  peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  ClaimedJob job = claim(peer, R"({"worker":"w","queues":["q"]})").jobs.at(0);
  CHECK_FALSE(job.has_memos);
  const auto keep = [&](const std::string& memos) {
    return peer.call("POST", "/v1/renew",
                     R"({"worker":"w","leases":[{"id":1,"token":)" + std::to_string(job.token) +
                         R"(,"memos":)" + memos + "}]}");
  };
  CHECK(keep(R"([{"name":"pay","result":{"id": "c1"}},{"name":"b","result":null}])").status == 200);
  CHECK(keep(R"([{"name":"pay","result":2}])").status == 200);
  const std::string memos = R"({"memos":[{"name":"b","result":null},)"
                            R"({"name":"pay","result":{"id": "c1"}}]})";
  CHECK(peer.call("GET", "/v1/jobs/1/memos").body == memos);
  peer.call("POST", "/v1/finish", finish_body(job, R"("outcome":"snooze","after":"0s")"));
  job = claim(peer, R"({"worker":"w","queues":["q"]})").jobs.at(0);
  CHECK(job.has_memos);
  CHECK(peer.call("GET", "/v1/jobs/1/memos?limit=1").body ==
        R"({"memos":[{"name":"b","result":null}],"next":"pay"})");
  CHECK(decode_memo_page(peer.call("GET", "/v1/jobs/1/memos?from=pay&limit=1").body)->memos ==
        std::vector<Memo>{{"pay", R"({"id": "c1"})"}});
  CHECK(peer.call("GET", "/v1/jobs/1/memos?from=no%20name").status == 400);
  CHECK(peer.call("GET", "/v1/jobs/99/memos").status == 404);
  CHECK(has(keep(R"([{"name":"no name","result":1}])").body, "leases[0].memos[0].name"));
}

TEST_CASE("a batch is enqueued in one request; large ones are parsed in another thread") {
  TestServer server;
  Peer peer(server);
  const auto batch = [](int jobs, int args_bytes) {
    std::string body = R"({"jobs":[)";
    for (int i = 0; i < jobs; ++i) {
      body += i == 0 ? "" : ",";
      body += R"({"queue":"q","kind":"k","args":")" +
              std::string(static_cast<std::size_t>(args_bytes), 'x') + "\"}";
    }
    return body + "]}";
  };
  for (int jobs : {1, 3, 3000}) {
    const Answer answer = peer.call("POST", "/v1/jobs", batch(jobs, 100));
    CHECK(answer.status == 201);
    CHECK(decode_enqueue_response(answer.body)->jobs.size() == static_cast<std::size_t>(jobs));
  }
  const Answer too_large = peer.call("POST", "/v1/jobs", batch(2, (1 << 20) + 1));
  CHECK(too_large.status == 413);
  CHECK(field_of(too_large) == "jobs[0].args");
  auto bad = batch(3000, 100);
  bad[bad.size() - 3] = '!';
  CHECK(peer.call("POST", "/v1/jobs", bad).status == 400);
  const ClaimResult claimed = claim(peer, R"({"worker":"w","queues":["q"],"max":1000})");
  CHECK(claimed.jobs.size() == 1000);
}

TEST_CASE("a finish includes the next claim") {
  TestServer server;
  Peer peer(server);
  enqueue(peer);
  const JobId second = enqueue(peer);
  const ClaimResult claimed = claim(peer);
  REQUIRE(claimed.jobs.size() == 1);
  std::string body =
      finish_body(claimed.jobs[0], R"("outcome":"retry","error":"boom","after":"1h")");
  body.pop_back();
  body += R"(,"claim":{"queues":["q"],"max":5}})";
  const Answer answer = peer.call("POST", "/v1/finish", body);
  CHECK(answer.status == 200);
  auto finished = decode_finish_response(answer.body);
  REQUIRE(finished);
  CHECK(finished->result.results.at(0) == FinishStatus::ok);
  REQUIRE(finished->claim);
  REQUIRE(finished->claim->jobs.size() == 1);
  CHECK(finished->claim->jobs[0].id == second);
  auto job = decode_job(peer.call("GET", "/v1/jobs/" + std::to_string(claimed.jobs[0].id)).body);
  REQUIRE(job);
  CHECK(job->state == JobState::retryable);
  REQUIRE(job->errors.size() == 1);
  CHECK(job->errors[0].message == "boom");
}

TEST_CASE("a job shows which gate holds it") {
  TestServer server;
  Peer peer(server);
  const std::string id = std::to_string(enqueue(peer));
  const auto gate = [&] {
    auto answer = decode_why(peer.call("GET", "/v1/jobs/" + id + "/why").body);
    REQUIRE(answer);
    return answer->gate;
  };
  CHECK(gate() == "no_worker");
  peer.call("POST", "/v1/queues/q/pause");
  CHECK(gate() == "queue_paused");
  peer.call("POST", "/v1/queues/q/resume");
  REQUIRE(claim(peer).jobs.size() == 1);
  CHECK(gate() == "running");
  CHECK(peer.call("GET", "/v1/jobs/99/why").status == 404);
  CHECK(peer.call("GET", "/v1/jobs/x/why").status == 400);
}

TEST_CASE("a limit per key holds the jobs of a key, and why shows it") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/queues/q/limits", R"({"per_key":{"concurrency":1}})").body ==
        R"({"name":"q","limits":{"concurrency":null,"rate":null,"per_key":{"concurrency":1}}})");
  const std::string job = R"({"queue":"q","kind":"k","limit_key":"acme"})";
  peer.call("POST", "/v1/jobs", job);
  peer.call("POST", "/v1/jobs", job);
  CHECK(claim(peer, R"({"worker":"w","queues":["q"],"max":9})").jobs.size() == 1);
  auto held = decode_job(peer.call("GET", "/v1/jobs/2").body);
  REQUIRE(held);
  CHECK(held->limit_key == "acme");
  auto answer = decode_why(peer.call("GET", "/v1/jobs/2/why").body);
  REQUIRE(answer);
  CHECK(answer->gate == "key_concurrency");
  CHECK(answer->why == R"(1 job of queue q with limit_key "acme" runs; the limit is 1)"
                       "; it is next");
  CHECK(peer.call("PUT", "/v1/queues/q/limits", R"({"per_key":{"rate":{"count":1,"per":"1h"}}})")
            .status == 200);
  peer.call("POST", "/v1/jobs", job);
  CHECK(claim(peer, R"({"worker":"w","queues":["q"],"max":9})").jobs.size() == 1);
  answer = decode_why(peer.call("GET", "/v1/jobs/3/why").body);
  REQUIRE(answer);
  CHECK(answer->gate == "key_rate");
  REQUIRE(answer->until);
  CHECK(answer->estimated_start == answer->until);
}

TEST_CASE("a heavy job waits for its slots; why, the queue and the claim show its cost") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/queues/q/limits",
                  R"({"concurrency":6,"costs":{"render":4,"thumbnail":1}})")
            .body == R"({"name":"q","limits":{"concurrency":6,"rate":null,"costs":{"render":4}}})");
  for (const char* kind : {"render", "thumbnail", "render", "thumbnail"})
    peer.call("POST", "/v1/jobs", fmt::format(R"({{"queue":"q","kind":"{}"}})", kind));
  const auto given = claim(peer, R"({"worker":"w","queues":["q"],"max":9})").jobs;
  CHECK((given.size() == 2 && given[0].cost == 4 && given[1].cost == 1));
  CHECK(peer.call("GET", "/v1/queues/q").body.find(R"("slots_taken":5)") != std::string::npos);
  const auto why = [&](int job) {
    const auto answer = decode_why(peer.call("GET", fmt::format("/v1/jobs/{}/why", job)).body);
    return answer->gate + ": " + answer->why;
  };
  CHECK(why(3).starts_with(
      "concurrency: it costs 4: 5 of the 6 slots of queue q are taken; it is next"));
  CHECK(why(4).starts_with("concurrency: a job before it that costs more slots, for example of"));
}

TEST_CASE("a job that waits for a rate shows how many are before it and its estimated start") {
  TestServer server;
  Peer peer(server);
  peer.call("PUT", "/v1/queues/q/limits", R"({"rate":{"count":1,"per":"1h"}})");
  for (int i = 0; i < 4; ++i) enqueue(peer);
  CHECK(claim(peer, R"({"worker":"w","queues":["q"],"max":9})").jobs.size() == 1);
  const auto third = decode_why(peer.call("GET", "/v1/jobs/3/why").body);
  const auto last = decode_why(peer.call("GET", "/v1/jobs/4/why").body);
  REQUIRE(third);
  REQUIRE(last);
  CHECK(third->ahead == 1);
  CHECK(last->ahead == 2);
  REQUIRE(last->estimated_start);
  CHECK(*last->estimated_start == *last->until + 2h);
}

TEST_CASE("cancel, retry, dead, redrive, list") {
  TestServer server;
  Peer peer(server);
  const std::string id = std::to_string(enqueue(peer));
  const Answer cancelled = peer.call("POST", "/v1/jobs/" + id + "/cancel", R"({"reason":"no"})");
  CHECK(cancelled.body == R"({"id":)" + id + R"(,"state":"cancelled"})");
  CHECK(peer.call("POST", "/v1/jobs/" + id + "/retry").body ==
        R"({"id":)" + id + R"(,"state":"available"})");
  const ClaimResult claimed = claim(peer);
  REQUIRE(claimed.jobs.size() == 1);
  const Answer wish = peer.call("POST", "/v1/jobs/" + id + "/cancel");
  CHECK(wish.body.find(R"("cancel_requested":true)") != std::string::npos);
  CHECK(wish.body.find(R"("state":"running")") != std::string::npos);
  CHECK(peer.call("POST", "/v1/jobs/" + id + "/retry").status == 409);
  peer.call("POST", "/v1/finish",
            finish_body(claimed.jobs[0], R"("outcome":"dead","reason":"bad","description":"d")"));

  auto dead = decode_job_page(peer.call("GET", "/v1/dead?queue=q").body);
  REQUIRE(dead);
  REQUIRE(dead->jobs.size() == 1);
  CHECK(dead->jobs[0].reason == "bad");
  CHECK(decode_job_page(peer.call("GET", "/v1/dead?queue=other").body)->jobs.empty());
  CHECK(decode_redrive_response(peer.call("POST", "/v1/dead/redrive", R"({"queue":"q"})").body)
            ->redriven == 1);

  for (int i = 0; i < 5; ++i) enqueue(peer, R"({"queue":"list","kind":"k","tags":["a"]})");
  std::size_t seen = 0;
  std::string cursor;
  do {
    auto page = decode_job_page(
        peer.call("GET", "/v1/jobs?queue=list&tag=a&state=available&limit=2" + cursor).body);
    REQUIRE(page);
    seen += page->jobs.size();
    cursor = page->next ? "&cursor=" + encode_cursor(*page->next) : "";
  } while (!cursor.empty());
  CHECK(seen == 5);
}

TEST_CASE("a queue shows its limits, and why names the limit that holds a job") {
  TestServer server;
  Peer peer(server);
  CHECK(
      peer.call("PUT", "/v1/queues/q/limits",
                R"({"concurrency":1,"rate":{"count":100,"per":"1m"}})")
          .body ==
      R"({"name":"q","limits":{"concurrency":1,"rate":{"count":100,"per":"1m","kind":"bucket"}}})");
  enqueue(peer, R"({"queue":"q","kind":"k"})");
  enqueue(peer, R"({"queue":"q","kind":"k"})");
  CHECK(claim(peer, R"({"worker":"w","queues":["q"],"max":9})").jobs.size() == 1);
  CHECK(peer.call("GET", "/v1/jobs/2/why").body.find(R"("gate":"concurrency")") !=
        std::string::npos);
  const auto queue = decode_queue(peer.call("GET", "/v1/queues/q").body);
  REQUIRE(queue);
  CHECK(queue->limits.concurrency == 1);
  CHECK(peer.call("PUT", "/v1/queues/q/limits", "{}").status == 200);
  CHECK(claim(peer, R"({"worker":"w","queues":["q"]})").jobs.size() == 1);
}

TEST_CASE("queues are shown, paused, resumed and get a retention; a / in a name is %2F") {
  TestServer server;
  Peer peer(server);
  enqueue(peer, R"({"queue":"a/b","kind":"k"})");
  CHECK(peer.call("POST", "/v1/queues/a%2Fb/pause").body == R"({"name":"a/b","paused":true})");
  CHECK(claim(peer, R"({"worker":"w","queues":["a/b"]})").jobs.empty());
  CHECK(peer.call("PUT", "/v1/queues/a%2Fb", R"({"retention":{"dead":"7d"}})").body ==
        R"({"name":"a/b","retention":{"completed":null,"dead":"7d"}})");
  auto queue = decode_queue(peer.call("GET", "/v1/queues/a%2Fb").body);
  REQUIRE(queue);
  CHECK(queue->paused);
  CHECK(queue->retention_dead == 7 * 24h);
  CHECK(queue->counts[static_cast<std::size_t>(JobState::available)] == 1);
  CHECK(peer.call("POST", "/v1/queues/a%2Fb/resume", "{}").status == 200);
  CHECK(claim(peer, R"({"worker":"w","queues":["a/b"]})").jobs.size() == 1);
  auto queues = decode_queues(peer.call("GET", "/v1/queues").body);
  REQUIRE(queues);
  CHECK(queues->items.size() == 1);
  CHECK(peer.call("GET", "/v1/queues/none").status == 404);
  auto workers = decode_workers(peer.call("GET", "/v1/workers").body);
  REQUIRE(workers);
  REQUIRE(workers->size() == 1);
  CHECK(workers->at(0).id == "w");
  CHECK(workers->at(0).running == 1);
}

TEST_CASE("the server reports its health, version and metrics") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("GET", "/healthz").body == R"({"status":"ok"})");
  CHECK(peer.call("GET", "/readyz").body.find("durability") != std::string::npos);
  CHECK(peer.call("GET", "/v1/version").body.find("mainspring") != std::string::npos);
  CHECK(peer.call("GET", "/openapi.json").body == HttpServer::openapi("0.1.0"));
  const Answer verified = peer.call("GET", "/v1/verify");
  CHECK(verified.status == 200);
  CHECK(decode_verify(verified.body)->problems.empty());
  const Answer metrics = peer.call("GET", "/metrics");
  CHECK(metrics.headers.at("Content-Type").starts_with("text/plain"));
  CHECK(metrics.body.find(R"(mainspring_http_requests_total{route="healthz",status="200"} 1)") !=
        std::string::npos);
  CHECK(metrics.body.find("mainspring_http_connections 1") != std::string::npos);
  const Answer head = peer.call("HEAD", "/healthz");
  CHECK(head.status == 200);
  CHECK(head.headers.at("Content-Length") == "15");
  server.server->set_not_ready("the disk is gone");
  const Answer not_ready = peer.call("GET", "/readyz");
  CHECK(not_ready.status == 503);
  CHECK(not_ready.headers.at("Retry-After") == "1");
  CHECK(not_ready.body.find("the disk is gone") != std::string::npos);
}

TEST_CASE("an invalid request is refused with code and field, and the connection stays open") {
  TestServer server;
  Peer peer(server);
  struct Case {
    std::string_view method, target, body;
    int status;
    std::string_view code, field;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"POST", "/v1/jobs", R"({"kind":"k","priority":12})", 400, "invalid_argument",
            "priority"},
           {"POST", "/v1/jobs", R"({"jobs":[{"kind":"k"},{"kind":"k","priorty":1}]})", 400,
            "invalid_argument", "jobs[1].priorty"},
           {"POST", "/v1/jobs", "", 400, "invalid_argument", ""},
           {"POST", "/v1/jobs", "{", 400, "invalid_argument", ""},
           {"POST", "/v1/jobs?wait=1s", R"({"jobs":[{"kind":"k"}]})", 400, "invalid_argument",
            "wait"},
           {"POST", "/v1/jobs?wait=2m", R"({"kind":"k"})", 400, "invalid_argument", "wait"},
           {"GET", "/v1/jobs/0", "", 400, "invalid_argument", "id"},
           {"GET", "/v1/jobs/042", "", 400, "invalid_argument", "id"},
           {"GET", "/v1/jobs/+1", "", 400, "invalid_argument", "id"},
           {"GET", "/v1/jobs/99999999999999999999", "", 400, "invalid_argument", "id"},
           {"GET", "/v1/jobs/77", "", 404, "not_found", ""},
           {"GET", "/v1/jobs/77?wait=1s", "", 404, "not_found", ""},
           {"POST", "/v1/jobs/77/cancel", "", 404, "not_found", ""},
           {"POST", "/v1/jobs/77/retry", "x", 400, "invalid_argument", ""},
           {"GET", "/v1/jobs?state=done", "", 400, "invalid_argument", "state"},
           {"GET", "/v1/jobs?limit=0", "", 400, "invalid_argument", "limit"},
           {"GET", "/v1/jobs?cursor=x", "", 400, "invalid_argument", "cursor"},
           {"GET", "/v1/jobs?queue=..", "", 400, "invalid_argument", "queue"},
           {"GET", "/v1/nothing", "", 404, "not_found", ""},
           {"DELETE", "/v1/jobs", "", 405, "method_not_allowed", ""},
           {"GET", "/v1/claim", "", 405, "method_not_allowed", ""},
           {"POST", "/v1/claim", R"({"worker":"w","queues":[]})", 400, "invalid_argument",
            "queues"},
           {"POST", "/v1/queues/..%2F/pause", "", 400, "invalid_argument", "queue"},
           {"PUT", "/v1/queues/q", R"({"retention":{"dead":"soon"}})", 400, "invalid_argument",
            "retention.dead"},
           {"PUT", "/v1/queues/q/limits", R"({"concurrency":0})", 400, "invalid_argument",
            "concurrency"},
           {"PUT", "/v1/queues/q/limits", R"({"rate":{"count":0,"per":"1m"}})", 400,
            "invalid_argument", "rate.count"},
           {"POST", "/v1/dead/redrive", R"({"limit":0})", 400, "invalid_argument", "limit"},
       }) {
    CAPTURE(c.target);
    CAPTURE(c.body);
    const Answer answer = peer.call(c.method, c.target, c.body);
    CHECK(answer.status == c.status);
    CHECK(code_of(answer) == c.code);
    CHECK(field_of(answer) == c.field);
  }
  CHECK(peer.call("DELETE", "/v1/jobs").headers.at("Allow") == "POST, GET, HEAD");
  peer.send(
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  CHECK(field_of(peer.receive()) == "Content-Type");
  CHECK(peer.call("GET", "/healthz").status == 200);
}

TEST_CASE("an Idempotency-Key enqueues once, and another body is refused") {
  TestServer server;
  Peer peer(server);
  const std::string_view key = "Idempotency-Key: abc\r\n";
  const Answer first = peer.call("POST", "/v1/jobs", R"({"kind":"k","queue":"q"})", key);
  CHECK(first.status == 201);
  const Answer second = peer.call("POST", "/v1/jobs", R"({"kind":"k","queue":"q"})", key);
  CHECK(second.status == 200);
  CHECK(decode_enqueue_response(second.body)->jobs[0].id ==
        decode_enqueue_response(first.body)->jobs[0].id);
  CHECK(decode_enqueue_response(second.body)->jobs[0].duplicate);
  const Answer other = peer.call("POST", "/v1/jobs", R"({"kind":"other","queue":"q"})", key);
  CHECK(other.status == 409);
  CHECK(code_of(other) == "conflict");
  const Answer unique = peer.call("POST", "/v1/jobs", R"({"kind":"k","unique":{"key":"u"}})");
  CHECK(unique.status == 201);
  CHECK(peer.call("POST", "/v1/jobs", R"({"kind":"k","unique":{"key":"u"}})").status == 200);
  const std::string long_key = "Idempotency-Key: " + std::string(513, 'x') + "\r\n";
  CHECK(peer.call("POST", "/v1/jobs", R"({"kind":"k"})", long_key).status == 413);
}

TEST_CASE("requests may arrive in one packet, in single bytes, in chunks, after 100 Continue") {
  TestServer server;
  Peer peer(server);
  std::string many;
  for (int i = 0; i < 50; ++i) {
    many += Peer::request("GET", "/healthz");
    many += Peer::request("POST", "/v1/jobs", R"({"kind":"k"})");
    many += Peer::request("GET", "/v1/jobs/" + std::to_string(i + 1));
  }
  peer.send(many);
  for (int i = 0; i < 50; ++i) {
    CHECK(peer.receive().status == 200);
    CHECK(peer.receive().status == 201);
    CHECK(decode_job(peer.receive().body)->id == i + 1);
  }
  for (const char c : Peer::request("POST", "/v1/jobs", R"({"kind":"k"})")) {
    peer.send(std::string_view(&c, 1));
  }
  CHECK(peer.receive().status == 201);
  const std::string_view chunked =
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"kin\r\n7\r\nd\":\"k\"}\r\n0\r\n\r\n";
  peer.send(std::string(chunked) + std::string(chunked));
  CHECK(peer.receive().status == 201);
  CHECK(peer.receive().status == 201);
  peer.send(
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n"
      "Expect: 100-continue\r\n\r\n");
  CHECK(peer.receive().status == 100);
  peer.send(R"({"kind":"k"})");
  CHECK(peer.receive().status == 201);
  Peer old(server);
  old.send("GET /healthz HTTP/1.0\r\n\r\n");
  CHECK(old.receive().status == 200);
  CHECK(old.ended());
}

TEST_CASE("curl's default content type is accepted, a page of another site is not") {
  TestServer server;
  const auto enqueue = [&](std::string_view header) {
    Peer peer(server);
    const std::string body = R"({"queue":"q","kind":"k"})";
    peer.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + std::string(header) +
              "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.receive().status;
  };
  CHECK(enqueue("Content-Type: application/x-www-form-urlencoded") == 201);
  // Another program of this machine may have a page at another port.
  CHECK(enqueue("Origin: http://localhost:1") == 403);
  CHECK(enqueue("Origin: http://127.0.0.1:1\r\nSec-Fetch-Site: same-site") == 403);
  CHECK(enqueue("Origin: http://localhost:1\r\nSec-Fetch-Site: same-origin") == 201);  // a proxy's
  CHECK(enqueue("Origin: http://localhost") == 201);
  CHECK(enqueue(fmt::format("Origin: http://127.0.0.1:{}", server.server->port())) == 201);
  CHECK(enqueue("Origin: https://evil.example") == 403);
  CHECK(enqueue("Origin: null") == 403);
  CHECK(enqueue("Content-Type: text/plain") == 400);
}

TEST_CASE("an ambiguous request ends the connection") {
  TestServer server;
  for (std::string_view text :
       {"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        "Content-Length: 2\r\n\r\nx",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", "\x16\x03\x01 TLS hello\r\n",
        "GET /healthz HTTP/1.1\nHost: localhost\n\n"}) {
    CAPTURE(text);
    Peer peer(server);
    peer.send(text);
    const Answer answer = peer.receive();
    CHECK(answer.status == 400);
    CHECK(answer.headers.at("Connection") == "close");
    CHECK(peer.ended());
  }
}

TEST_CASE("only names of this server are allowed in Host") {
  HttpOptions options;
  options.allowed_hosts = {"jobs.example.org"};
  TestServer server(options);
  Peer peer(server);
  const auto status = [&](std::string_view host) {
    peer.send("GET /healthz HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    return peer.receive().status;
  };
  CHECK(status("localhost") == 200);
  CHECK(status("LOCALHOST:8080") == 200);
  CHECK(status("127.0.0.1:1") == 200);
  CHECK(status("[::1]:80") == 200);
  CHECK(status("Jobs.Example.Org") == 200);
  CHECK(status("evil.example.org") == 403);
  CHECK(status("192.168.1.5") == 403);
  CHECK(status("localhost.evil.org") == 403);
  CHECK(status("") == 403);
  peer.send("GET http://evil.org/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(peer.receive().status == 403);
}

TEST_CASE("heads, bodies and connections have limits") {
  HttpOptions options;
  options.max_connections = 3;
  TestServer server(options);
  Peer header(server);
  header.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'x'));
  CHECK(header.receive().status == 431);
  Peer body(server);
  body.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16777217\r\n\r\n");
  const Answer too_large = body.receive();
  CHECK(too_large.status == 413);
  CHECK(too_large.body.find("16777216") != std::string::npos);
  Peer small(server);
  small.send(
      "POST /v1/claim HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "100001\r\n");
  CHECK(small.receive().status == 413);
  Peer fourth(server);
  const Answer refused = fourth.receive();
  // Under TLS each request would need a handshake.
  CHECK(refused.status == (over_tls() ? 0 : 503));
  if (!over_tls()) CHECK(check_json("body", refused.body));
  CHECK(fourth.ended());
  header.close();
  wait_until([&] { return server.server->connections() < 3; });
  Peer fifth(server);
  CHECK(fifth.call("GET", "/healthz").status == 200);
}

TEST_CASE("the commit of an enqueue wakes a parked claim") {
  TestServer server;
  Peer worker(server), producer(server);
  worker.send(Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"wait":"30s"})"));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  const JobId id = enqueue(producer);
  auto claimed = decode_claim_response(worker.receive().body);
  REQUIRE(claimed);
  REQUIRE(claimed->jobs.size() == 1);
  CHECK(claimed->jobs[0].id == id);
  // A cancel wakes the parked claim of the job's worker.
  worker.send(Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"wait":"30s"})"));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  producer.call("POST", "/v1/jobs/" + std::to_string(id) + "/cancel");
  auto woken = decode_claim_response(worker.receive().body);
  REQUIRE(woken);
  CHECK(woken->cancel == std::vector<JobId>{id});
  // An empty answer comes when the wait is over.
  CHECK(claim(worker, R"({"worker":"w","queues":["q"],"wait":"5ms"})").jobs.empty());
}

TEST_CASE("a parked claim of a disconnected peer takes no job") {
  TestServer server;
  Peer producer(server);
  {
    Peer worker(server);
    worker.send(
        Peer::request("POST", "/v1/claim", R"({"worker":"gone","queues":["q"],"wait":"30s"})"));
    wait_until([&] { return server.broker->parked_claims() == 1; });
  }
  wait_until([&] { return server.broker->parked_claims() == 0; });
  enqueue(producer);
  CHECK(claim(producer).jobs.size() == 1);
}

TEST_CASE("a thousand parked claims are woken by one batch, each with one job") {
  TestServer server;
  std::vector<Peer> workers;
  for (int i = 0; i < 1000; ++i) {
    workers.emplace_back(server.server->port());
    REQUIRE(workers.back().connected());
    workers.back().send(
        Peer::request("POST", "/v1/claim",
                      R"({"worker":"w)" + std::to_string(i) + R"(","queues":["q"],"wait":"60s"})"));
  }
  wait_until([&] { return server.broker->parked_claims() == 1000; });
  std::string batch = R"({"jobs":[{"queue":"q","kind":"k"})";
  for (int i = 1; i < 1000; ++i) batch += R"(,{"queue":"q","kind":"k"})";
  Peer producer(server);
  CHECK(producer.call("POST", "/v1/jobs", batch + "]}").status == 201);
  std::vector<JobId> seen;
  for (Peer& worker : workers) {
    auto claimed = decode_claim_response(worker.receive().body);
    REQUIRE(claimed);
    REQUIRE(claimed->jobs.size() == 1);
    seen.push_back(claimed->jobs[0].id);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("enqueue and get wait for the end of a job") {
  TestServer server;
  Peer waiting(server), reading(server), worker(server);
  waiting.send(Peer::request("POST", "/v1/jobs?wait=30s", R"({"queue":"q","kind":"k"})"));
  const ClaimResult claimed = claim(worker, R"({"worker":"w","queues":["q"],"wait":"20s"})");
  REQUIRE(claimed.jobs.size() == 1);
  reading.send(
      Peer::request("GET", "/v1/jobs/" + std::to_string(claimed.jobs[0].id) + "?wait=30s"));
  worker.call("POST", "/v1/finish",
              finish_body(claimed.jobs[0], R"("outcome":"complete","result":7)"));
  const Answer waited = waiting.receive();
  CHECK(waited.status == 201);
  CHECK(decode_job(waited.body)->result == "7");
  const Answer read = reading.receive();
  CHECK(read.status == 200);
  CHECK(decode_job(read.body)->state == JobState::completed);
  const JobId unfinished = enqueue(worker);
  const Answer timed_out =
      worker.call("GET", "/v1/jobs/" + std::to_string(unfinished) + "?wait=5ms");
  CHECK(decode_job(timed_out.body)->state == JobState::available);
}

TEST_CASE("a stop answers parked claims and waits, finishes replies, then closes") {
  TestServer server;
  Peer parked(server), idle(server), waiting(server), producer(server);
  CHECK(idle.call("GET", "/healthz").status == 200);
  const JobId id = enqueue(producer, R"({"queue":"other","kind":"k"})");
  waiting.send(Peer::request("GET", "/v1/jobs/" + std::to_string(id) + "?wait=60s"));
  parked.send(Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"wait":"60s"})"));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  server.server->stop(10s);
  const Answer empty = parked.receive();
  CHECK(empty.status == 200);
  CHECK(empty.body == R"({"jobs":[]})");
  CHECK(empty.headers.at("Connection") == "close");
  CHECK(parked.ended());
  CHECK(idle.ended());
  const Answer cut_short = waiting.receive();
  CHECK((cut_short.status == 200 || cut_short.status == 0));
  CHECK_FALSE(Peer(server.server->port()).connected());
  server.server->stop(0s);
}

TEST_CASE("each claim that a stop answers carries Connection: close") {
  for (int round = 0; round < 5; ++round) {
    TestServer server;
    std::vector<Peer> parked;
    for (int i = 0; i < 100; ++i) {
      parked.emplace_back(server.server->port());
      parked.back().send(Peer::request(
          "POST", "/v1/claim",
          R"({"worker":"w)" + std::to_string(i) + R"(","queues":["q"],"wait":"60s"})"));
    }
    wait_until([&] { return server.broker->parked_claims() == 100; });
    // The mailbox always contains other answers, so its wake-up is already pending.
    std::vector<std::jthread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([port = server.server->port()] {
        Peer peer(port);
        while (peer.call("GET", "/v1/queues").status == 200) {
        }
      });
    }
    server.server->stop(10s);
    readers.clear();
    for (Peer& peer : parked) {
      const Answer answer = peer.receive();
      REQUIRE(answer.status == 200);
      REQUIRE(answer.headers.contains("Connection"));
    }
  }
}

TEST_CASE("a server that cannot listen reports why; one that never started can be stopped") {
  TestServer server;
  HttpOptions options;
  options.port = server.server->port();
  HttpServer second(options, *server.broker, *server.store, server.clock, server.log,
                    server.registry);
  auto started = second.start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == ErrorCode::conflict);
  CHECK(started.error().message.find("another program uses it") != std::string::npos);
  second.stop(1s);
  // An address of a network that is not up yet, as at boot: trying again later may succeed.
  options.host = "192.0.2.1";
  HttpServer early(options, *server.broker, *server.store, server.clock, server.log,
                   server.registry);
  started = early.start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == ErrorCode::conflict);
  CHECK(started.error().message.find("or not yet") != std::string::npos);
  options.host = "nowhere";
  options.io_threads = 0;
  CHECK(options.validate().size() == 2);
}

TEST_CASE("two servers in one process, several io threads") {
  HttpOptions options;
  options.io_threads = 2;
  TestServer first(options), second(options);
  std::vector<std::jthread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      Peer peer(i % 2 == 0 ? first.server->port() : second.server->port());
      for (int n = 0; n < 50; ++n)
        CHECK(peer.call("POST", "/v1/jobs", R"({"kind":"k"})").status == 201);
    });
  }
  clients.clear();
  CHECK(first.store->queues()->at(0).enqueued == 200);
  CHECK(second.store->queues()->at(0).enqueued == 200);
}

TEST_CASE("random bytes on one connection do not disturb others") {
  TestServer server;
  unsigned state = 7;
  Peer good(server);
  for (int i = 0; i < 200; ++i) {
    Peer bad(server);
    std::string noise = i % 2 == 0 ? "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" : "";
    for (int n = 0; n < 64; ++n) {
      state = state * 1664525u + 1013904223u;
      noise += static_cast<char>(state >> 24);
    }
    bad.send(noise);
    CHECK(good.call("GET", "/healthz").status == 200);
  }
  enqueue(good);
}

TEST_CASE("a large response is written as fast as the peer reads it; a large body likewise") {
  TestServer server;
  Peer peer(server);
  const std::string args = "\"" + std::string(1'000'000, 'x') + "\"";
  std::string body = R"({"jobs":[)";
  for (int i = 0; i < 12; ++i) {
    body += i == 0 ? "" : ",";
    body += R"({"queue":"q","kind":"k","args":)" + args + "}";
  }
  CHECK(peer.call("POST", "/v1/jobs", body + "]}").status == 201);
  // Nine megabytes do not fit into the socket: the rest waits for the peer.
  peer.send(Peer::request("POST", "/v1/claim", R"({"worker":"w","queues":["q"],"max":100})") +
            Peer::request("GET", "/healthz"));
  const Answer claimed = peer.receive();
  CHECK(claimed.body.size() > 9'000'000);
  auto jobs = decode_claim_response(claimed.body);
  REQUIRE(jobs);
  REQUIRE(jobs->jobs.size() == 9);
  CHECK(jobs->jobs[8].args == args);
  CHECK(peer.receive().body == R"({"status":"ok"})");
}
