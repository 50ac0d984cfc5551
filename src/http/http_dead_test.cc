// Dead jobs grouped by error: groups, their limits, and permissions.
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

void die(TestServer& s, const std::string& queue, const std::string& kind, int count,
         const std::string& description) {
  Enqueue enqueue;
  enqueue.jobs.assign(static_cast<std::size_t>(count), NewJob{.queue = queue, .kind = kind});
  REQUIRE(s.broker->enqueue(enqueue).has_value());
  const Claim claim{.worker = "w", .queues = {queue}, .max = count};
  const auto claimed = s.broker->claim(claim, 1s, {});
  REQUIRE(claimed->jobs.size() == static_cast<std::size_t>(count));
  Finish finish{.worker = "w"};
  for (const ClaimedJob& job : claimed->jobs) {
    finish.results.push_back(
        {job.id, job.token, Dead{"broken", description + " " + std::to_string(job.id)}});
  }
  REQUIRE(s.broker->finish(std::move(finish)).has_value());
}

std::string fingerprint_in(const std::string& body, std::string_view kind) {
  const std::size_t at = body.find(R"(","kind":")" + std::string(kind));
  REQUIRE(at != std::string::npos);
  return body.substr(at - 16, 16);
}

}  // namespace

TEST_CASE("dead jobs are grouped by error, the largest group first") {
  TestServer s;
  Peer peer(s);
  CHECK(peer.call("GET", "/v1/dead/groups").body == R"({"groups":[],"jobs":0,"cut":false})");
  die(s, "photos", "resize", 2, "no disk");
  die(s, "photos", "cut", 3, "no disk");
  die(s, "films", "resize", 2, "no disk");
  die(s, "films", "resize", 1, "no memory");
  const std::string body = peer.call("GET", "/v1/dead/groups").body;
  CAPTURE(body);
  const std::size_t most = body.find(R"("kind":"resize","reason":"broken","count":4,)");
  const std::size_t next = body.find(R"("kind":"cut","reason":"broken","count":3,)");
  const std::size_t least = body.find(R"("kind":"resize","reason":"broken","count":1,)");
  CHECK(most < next);
  CHECK(next < least);
  CHECK(least != std::string::npos);
  CHECK(has(body, R"("first":{"id":1,"at":"20)"));
  CHECK(has(body, R"("last":{"id":7,"at":"20)"));
  CHECK(has(body, R"("message":"no disk 7")"));
  CHECK(has(body, R"("jobs":8,"cut":false)"));
  const std::string cut = fingerprint_in(body, "cut");
  const std::string found = peer.call("GET", "/v1/dead?fingerprint=" + cut).body;
  for (const char* id : {R"("id":3,)", R"("id":4,)", R"("id":5,)"}) CHECK(has(found, id));
  CHECK_FALSE(has(found, R"("id":6,)"));
  CHECK(has(peer.call("GET", "/v1/dead/groups?queue=films&kind=resize").body, R"("jobs":3,)"));
  const std::string after = "since=2099-01-01T00:00:00Z";
  CHECK(has(peer.call("GET", "/v1/dead/groups?" + after).body, R"({"groups":[],"jobs":0,)"));
  CHECK(has(peer.call("GET", "/v1/dead/groups?tag=none&" + after).body, R"("jobs":0,)"));
  CHECK(has(peer.call("GET", "/v1/dead/groups?since=2001-01-01T00:00:00Z").body, R"("jobs":8,)"));
  check_refusals(peer,
                 {{"GET", "/v1/dead/groups?since=2h", "", 400, "invalid_argument", "since"},
                  {"GET", "/v1/dead?fingerprint=x", "", 400, "invalid_argument", "fingerprint"},
                  {"GET", "/v1/dead/groups?kind=%20", "", 400, "invalid_argument", "kind"}});
}

TEST_CASE("a dry run shows what a redrive would do, oldest first, and changes nothing") {
  TestServer s;
  Peer peer(s);
  die(s, "photos", "resize", 3, "no disk");
  die(s, "films", "resize", 2, "no disk");
  const auto redrive = [&](const std::string& body) {
    return peer.call("POST", "/v1/dead/redrive", body).body;
  };
  CHECK(redrive(R"({"queue":"photos","limit":2,"dry_run":true})") ==
        R"({"redriven":2,"next":2,"ids":[1,2],"dry_run":true,"cut":false})");
  CHECK(redrive(R"({"after":2,"dry_run":true})") ==
        R"({"redriven":3,"next":null,"ids":[3,4,5],"dry_run":true,"cut":false})");
  CHECK(redrive(R"({"queue":"none","dry_run":true})") ==
        R"({"redriven":0,"next":null,"ids":[],"dry_run":true,"cut":false})");
  CHECK(redrive(R"({"queue":"photos","limit":2})") == R"({"redriven":2,"next":2,"ids":[1,2]})");
  CHECK(has(peer.call("GET", "/v1/audit").body, R"("action":"redrive","object":"queue/photos")"));
  CHECK(redrive("") == R"({"redriven":3,"next":null,"ids":[3,4,5]})");
}

TEST_CASE("the end of a program is shown with its error and does not change the group") {
  TestServer s;
  Peer peer(s);
  for (const std::string_view end :
       {R"("signal":"SIGKILL","oom":true,"peak_memory":52428800)", R"("exit_code":3)"}) {
    REQUIRE(s.broker->enqueue({.jobs = {{.queue = "q", .kind = "k"}}}).has_value());
    const auto claimed = s.broker->claim({.worker = "w", .queues = {"q"}}, 1s, {});
    REQUIRE(claimed->jobs.size() == 1);
    const Answer answer =
        peer.call("POST", "/v1/finish",
                  fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":"dead",)"
                              R"("reason":"broken","description":"no disk",{}}}]}})",
                              claimed->jobs[0].id, claimed->jobs[0].token, end));
    CHECK(has(answer.body, R"("status":"ok")"));
  }
  CHECK(has(peer.call("GET", "/v1/jobs/1").body,
            R"(,"signal":"SIGKILL","oom":true,"peak_memory":52428800}])"));
  CHECK(has(peer.call("GET", "/v1/jobs/2").body, R"(,"exit_code":3}])"));
  CHECK(has(peer.call("GET", "/v1/dead/groups").body, R"("count":2,)"));
  check_refusals(peer, {{"POST", "/v1/finish",
                         R"({"worker":"w","results":[{"id":1,"token":1,"outcome":"retry",)"
                         R"("peak_memory":-5}]})",
                         400, "invalid_argument", "results[0].peak_memory"}});
}

TEST_CASE("groups contain only jobs and messages that a token may read") {
  HttpOptions options;
  options.require_token = true;
  TestServer s(options);
  die(s, "photos", "resize", 1, "no disk");
  die(s, "films", "resize", 2, "no disk");
  Peer peer(s);
  const std::string body =
      peer.call("GET", "/v1/dead/groups", "", scoped_token(s, "read=photos", "a")).body;
  CHECK(has(body, R"("count":1,"first":{"id":1,)"));
  CHECK(has(body, R"("message":null,"masked":true)"));
  CHECK(has(body, R"("jobs":1,)"));
  const std::string all =
      peer.call("GET", "/v1/dead/groups", "", scoped_token(s, "read read:payload", "b")).body;
  CHECK(has(all, R"("count":3,"first":{"id":1,)"));
  CHECK(has(all, R"("message":"no disk 3")"));
}

TEST_CASE("a paced redrive is a job, one at a time for the same selection") {
  TestServer s;
  Peer peer(s);
  die(s, "photos", "resize", 2, "no disk");
  const auto started = peer.call("POST", "/v1/redrives",
                                 R"({"queue":"photos","rate":"20/s","canary":true,"limit":7})");
  CHECK(started.status == 201);
  CHECK(started.body == R"({"id":3,"state":"available"})");
  const auto again = peer.call("POST", "/v1/redrives", R"({"queue":"photos"})");
  CHECK(again.status == 200);
  CHECK(again.body == R"({"id":3,"state":"available","duplicate":true})");
  const std::string job = peer.call("GET", "/v1/jobs/3").body;
  CAPTURE(job);
  CHECK(has(job, R"("queue":"mainspring.redrives","kind":"redrive")"));
  CHECK(has(job, R"("args":{"queue":"photos","rate":"20/s","canary":true,"limit":7})"));
  CHECK(peer.call("POST", "/v1/redrives").body ==
        R"({"id":4,"state":"available"})");  // everything: a different redrive
  const auto bad = peer.call("POST", "/v1/redrives", R"({"rate":"fast"})");
  CHECK(bad.status == 400);
  CHECK(has(bad.body, R"("field":"rate")"));
  // Clients cannot put jobs there.
  CHECK(
      peer.call("POST", "/v1/jobs", R"({"queue":"mainspring.redrives","kind":"redrive"})").status ==
      400);
}

TEST_CASE("a caller with rights to one queue must name it in a redrive") {
  TestServer s(HttpOptions{.require_token = true});
  const std::string photos = scoped_token(s, "admin=photos", "p");
  const std::string all = scoped_token(s, "admin", "a");
  Peer peer(s);
  CHECK(peer.call("POST", "/v1/redrives", R"({"queue":"photos"})", photos).status == 201);
  CHECK(has(peer.call("GET", "/v1/audit", "", all).body,
            R"("action":"start_redrive","object":"queue/photos")"));
  CHECK(peer.call("POST", "/v1/redrives", R"({"queue":"films"})", photos).status == 403);
  CHECK(peer.call("POST", "/v1/redrives", R"({"kind":"resize"})", photos).status == 403);
  CHECK(peer.call("POST", "/v1/redrives", R"({"kind":"resize"})", all).status == 201);
}
