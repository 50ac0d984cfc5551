// GET /v1/history: its responses, permissions and refusals.
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

void complete_one(TestServer& s, const std::string& queue, const std::string& kind) {
  REQUIRE(s.broker->enqueue({.jobs = {{.queue = queue, .kind = kind}}}).has_value());
  const auto claimed = s.broker->claim({.worker = "w", .queues = {queue}}, 1s, {});
  REQUIRE(claimed->jobs.size() == 1);
  const ClaimedJob& job = claimed->jobs[0];
  REQUIRE(s.broker->finish({.worker = "w", .results = {{job.id, job.token, Complete{}}}}));
}

std::string total_of(const std::string& body) {
  return body.substr(std::min(body.size(), body.rfind(R"("total":)")));
}

}  // namespace

TEST_CASE("the history counts events at once, with wait and run times") {
  TestServer s;
  Peer peer(s);
  const std::string empty = peer.call("GET", "/v1/history").body;
  CHECK(has(empty, R"("queue":null,"kind":null,"from":")"));
  CHECK(has(empty, R"("step":"1h","points":[{"at":")"));
  CHECK(has(total_of(empty),
            R"({"enqueued":0,"started":0,"completed":0,"failed":0,"dead":0,"cancelled":0,)"
            R"("wait":{"count":0,"p50_ms":null,"p95_ms":null,"p99_ms":null})"));
  complete_one(s, "photos", "resize");
  complete_one(s, "photos", "cut");
  complete_one(s, "films", "cut");
  const auto total = [&](const std::string& query) {
    return total_of(peer.call("GET", "/v1/history?" + query).body);
  };
  CHECK(has(total(""), R"("enqueued":3,"started":3,"completed":3,"failed":0,)"));
  CHECK(has(total("queue=photos&step=1m&from=" + format_wall_time(s.clock.now().wall - 10min)),
            R"("completed":2,)"));
  CHECK(has(total("queue=photos&kind=cut&step=1d"), R"("completed":1,)"));
  CHECK(has(total("kind=cut"), R"("completed":2,)"));
  CHECK(has(total("kind=cut"), R"("run":{"count":2,"p50_ms":)"));
  CHECK(has(total("queue=none"), R"("enqueued":0,)"));
}

TEST_CASE("a token sees only the history of its queues") {
  TestServer s;
  Peer peer(s);
  complete_one(s, "photos", "resize");
  complete_one(s, "films", "cut");
  const std::string token = scoped_token(s, "read=photos");
  const auto total = [&](const std::string& query) {
    return total_of(peer.call("GET", "/v1/history?" + query, "", token).body);
  };
  CHECK(has(total(""), R"("enqueued":1,)"));
  CHECK(has(total("queue=photos"), R"("enqueued":1,)"));
  CHECK(has(total("queue=films"), R"("enqueued":0,)"));
  CHECK(has(total("kind=cut"), R"("enqueued":0,)"));
}

TEST_CASE("an invalid history request is refused with field, value and rule") {
  TestServer s;
  Peer peer(s);
  check_refusals(
      peer, {{"GET", "/v1/history?queue=%20", "", 400, "invalid_argument", "queue"},
             {"GET", "/v1/history?kind=%20", "", 400, "invalid_argument", "kind"},
             {"GET", "/v1/history?from=yesterday", "", 400, "invalid_argument", "from"},
             {"GET", "/v1/history?to=1", "", 400, "invalid_argument", "to"},
             {"GET", "/v1/history?step=often", "", 400, "invalid_argument", "step"},
             {"GET", "/v1/history?step=0s", "", 400, "invalid_argument", "step"},
             {"GET", "/v1/history?step=90m", "", 400, "invalid_argument", "step"},
             {"GET", "/v1/history?from=2999-01-01T00:00:00Z", "", 400, "invalid_argument", "from"},
             {"GET", "/v1/history?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400,
              "invalid_argument", "from"}});
  const std::string now = format_wall_time(s.clock.now().wall - 47h);
  CHECK(has(peer.call("GET", "/v1/history?step=1m&from=" + now).body,
            "must be at most 2000; use a longer step or a shorter window"));
}
