// Results over real sockets: many waiting callers, and the response after their retention.
#include <fmt/format.h>

#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWaiting = 1000;  // each has its own connection

JobId answers_enqueue(Peer& peer) {
  const Answer answer = peer.call("POST", "/v1/jobs", R"({"queue":"mail","kind":"receipt"})");
  const bool made = answer.status == 200 || answer.status == 201;
  REQUIRE_MESSAGE(made, answer.body);
  return decode_enqueue_response(answer.body)->jobs.at(0).id;
}
std::string path(JobId id, std::string_view query = "") {
  return fmt::format("/v1/jobs/{}{}", id, query);
}
void complete_one(Peer& peer, JobId id) {
  const Answer claimed = peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["mail"]})");
  const auto claim = decode_claim_response(claimed.body);
  REQUIRE_MESSAGE(claim.has_value(), claimed.body);
  REQUIRE(claim->jobs.size() == 1);
  REQUIRE(claim->jobs[0].id == id);
  const std::string ends = fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},)"
                                       R"("outcome":"complete","result":{{"sent":1}}}}]}})",
                                       id, claim->jobs[0].token);
  REQUIRE(has(peer.call("POST", "/v1/finish", ends).body, R"("status":"ok")"));
}

}  // namespace

TEST_CASE("at level debug each request and each batch is a line") {
  for (const bool debug : {false, true}) {
    HttpOptions options;
    options.log_requests = debug;
    BrokerOptions broker;
    broker.log_batches = debug;
    TestServer server(options, broker);
    Peer peer(server);
    answers_enqueue(peer);
    CHECK(peer.call("GET", "/v1/nothing").status == 404);
    CHECK(peer.call("GET", "/healthz").status == 200);
    CHECK(server.log.requests() == (debug ? 3 : 0));
    CHECK((server.log.batches() > 0) == debug);
  }
}

TEST_CASE("a job and its result are 410 after their retention; an unknown job is 404") {
  TestServer s;
  Peer peer(s);
  const JobId id = answers_enqueue(peer);
  complete_one(peer, id);
  CHECK(has(peer.call("GET", path(id)).body, R"("result":{"sent":1})"));
  REQUIRE(peer.call("PUT", "/v1/queues/mail", R"({"retention":{"completed":"1ms"}})").status ==
          200);
  const JobId next = answers_enqueue(peer);
  complete_one(peer, next);  // jobs of this queue are now pruned soon
  wait_until([&] { return peer.call("GET", path(next)).status != 200; });
  for (const std::string_view query : {"", "?wait=20s"}) {
    const Answer gone = peer.call("GET", path(next, query));
    CHECK(gone.status == 410);
    CHECK(code_of(gone) == "expired");
  }
  CHECK(peer.call("GET", path(next + 1000)).status == 404);
  // Which queue a removed job had is not known: 410 would show ids of others.
  const std::string mail = scoped_token(s, "read=mail result=mail admin=mail", "mail");
  for (const auto& [method, end] : {std::pair{"GET", ""},
                                    {"GET", "?wait=20s"},
                                    {"GET", "/why"},
                                    {"POST", "/cancel"},
                                    {"DELETE", ""}}) {
    const std::string there = path(next, end), never = path(next + 1000, end);
    const Answer removed = peer.call(method, there, "", mail);
    CHECK(removed.status == 404);
    std::string none = peer.call(method, never, "", mail).body;
    const std::string number = std::to_string(next + 1000);
    none.replace(none.find(number), number.size(), std::to_string(next));
    CHECK(removed.body == none);
  }
  CHECK(peer.call("GET", path(next), "", scoped_token(s, "result", "all")).status == 410);
}

TEST_CASE("a thousand callers wait for one job without a thread each, and all are answered") {
  TestServer s;
  Peer peer(s);
  const JobId id = answers_enqueue(peer);
  CHECK(peer.call("GET", path(id, "?wait=1ms")).status == 200);
  const int before = threads_of_process();
  std::vector<Peer> callers;
  for (int i = 0; i < kWaiting; ++i) {
    callers.emplace_back(s);
    callers.back().send(Peer::request("GET", path(id, "?wait=60s")));
  }
  wait_until([&] { return s.broker->watches() == kWaiting; });
  CHECK(threads_of_process() <= before);  // an ended thread may have been counted
  complete_one(peer, id);
  for (Peer& caller : callers) {
    const Answer answer = caller.receive();
    CHECK(answer.status == 200);
    CHECK(has(answer.body, R"("result":{"sent":1})"));
  }
  wait_until([&] { return s.broker->watches() == 0; });
}

TEST_CASE("changed progress goes to reply_to if requested, and to entries of then") {
  TestServer s;
  Peer peer(s);
  const Answer made = peer.call("POST", "/v1/jobs",
                                R"({"queue":"mail","kind":"k","reply_progress":true,)"
                                R"("reply_to":"answers","reply_session":"me",)"
                                R"("then":[{"queue":"page","kind":"show","on":["progress"]}]})");
  REQUIRE_MESSAGE(made.status == 201, made.body);
  CHECK(has(peer.call("GET", path(1)).body,
            R"("then":[{"queue":"answers","kind":"progress","on":["progress"],"session":"me"},)"
            R"({"queue":"page","kind":"show","on":["progress"]}])"));
  const auto claim = [&](const char* queue) {
    const Answer claimed = peer.call(
        "POST", "/v1/claim", fmt::format(R"({{"worker":"w","queues":["{}"],"max":9}})", queue));
    const auto jobs = decode_claim_response(claimed.body);
    REQUIRE_MESSAGE(jobs.has_value(), claimed.body);
    return jobs->jobs;
  };
  const Token token = claim("mail").at(0).token;
  const std::string renewal = fmt::format(R"({{"worker":"w","leases":[{{"id":1,"token":{},)"
                                          R"("progress":{{"value":0.5,"text":"half"}}}}]}})",
                                          token);
  for (int i = 0; i < 2; ++i) CHECK(peer.call("POST", "/v1/renew", renewal).status == 200);
  for (const char* queue : {"answers", "page"}) {
    const auto told = claim(queue);
    REQUIRE(told.size() == 1);
    CHECK(told[0].kind == (std::string_view(queue) == "page" ? "show" : "progress"));
    CHECK(told[0].args ==
          fmt::format(R"({{"job":1,"queue":"mail","kind":"k","state":"running","attempt":1,)"
                      R"("result":null,"progress":{{"value":0.5,"text":"half"}},"token":{},)"
                      R"("data":null}})",
                      token));
  }
  const Answer refused =
      peer.call("POST", "/v1/jobs", R"({"queue":"mail","kind":"k","reply_progress":true})");
  CHECK(refused.status == 400);
  CHECK(has(refused.body, R"("field":"reply_progress")"));
  CHECK(has(peer.call("PUT", "/v1/triggers/t",
                      R"({"ended":{"queue":"mail","on":["progress"]},"job":{"kind":"k"}})")
                .body,
            "ended.on"));
}

TEST_CASE("a queue that does not exist is not created by a pause, unless the caller asks for it") {
  TestServer server;
  Peer peer(server);
  for (const char* path : {"/v1/queues/typo/pause", "/v1/queues/typo/resume"}) {
    const Answer refused = peer.call("POST", path);
    CHECK(refused.status == 404);
    CHECK(has(refused.body, "there is no queue"));
  }
  CHECK(peer.call("PUT", "/v1/queues/typo?create=false", R"({"retention":{}})").status == 404);
  CHECK(peer.call("PUT", "/v1/queues/typo/limits?create=false", "{}").status == 404);
  CHECK(peer.call("POST", "/v1/queues/typo/pause?create=maybe").status == 400);
  CHECK(peer.call("GET", "/v1/queues").body == R"({"queues":[],"next":null})");
  CHECK(peer.call("POST", "/v1/queues/typo/pause?create=true").status == 200);
  CHECK(peer.call("PUT", "/v1/queues/other/limits", "{}").status == 200);
}
