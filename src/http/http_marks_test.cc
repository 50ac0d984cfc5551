// Marks and saved views: responses, refusals, and audit records.
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

TEST_CASE("a mark is added for everyone, listed by time, and removed") {
  TestServer s;
  Peer peer(s);
  CHECK(peer.call("GET", "/v1/marks").body == R"({"marks":[],"next_cursor":null})");
  const auto added = peer.call("POST", "/v1/marks", R"({"text":"v1.4"})");
  CHECK(added.status == 201);
  CHECK(has(added.body, R"({"id":1,"at":"20)"));
  CHECK(has(added.body, R"("text":"v1.4","by":"local","source":"manual"})"));
  peer.call("POST", "/v1/marks", R"({"text":"before","at":"2020-01-01T00:00:00Z"})");
  const std::string first = peer.call("GET", "/v1/marks?limit=1").body;
  CHECK(has(first, R"({"marks":[{"id":1,)"));
  const std::size_t at = first.find(R"("next_cursor":")") + 15;
  const std::string cursor = first.substr(at, first.find('"', at) - at);
  CHECK(has(peer.call("GET", "/v1/marks?limit=1&cursor=" + cursor).body,
            R"({"marks":[{"id":2,"at":"2020-01-01T00:00:00Z","text":"before",)"));
  CHECK(has(peer.call("GET", "/v1/marks?to=2021-01-01T00:00:00Z").body, R"({"marks":[{"id":2,)"));
  const auto removed = peer.call("DELETE", "/v1/marks/1");
  CHECK(removed.status == 204);
  CHECK(removed.body.empty());
  check_refusals(peer, {{"DELETE", "/v1/marks/1", "", 404, "not_found", ""},
                        {"DELETE", "/v1/marks/x", "", 400, "invalid_argument", "id"},
                        {"POST", "/v1/marks", R"({"text":""})", 400, "invalid_argument", "text"},
                        {"POST", "/v1/marks", R"({"text":"x","at":"9000-01-01T00:00:00Z"})", 400,
                         "invalid_argument", "at"},
                        {"GET", "/v1/marks?limit=0", "", 400, "invalid_argument", "limit"},
                        {"GET", "/v1/marks?from=soon", "", 400, "invalid_argument", "from"},
                        {"GET", "/v1/marks?cursor=soon", "", 400, "invalid_argument", "cursor"},
                        {"GET", "/v1/marks?from=2026-01-01T00:00:00Z&to=2025-01-01T00:00:00Z", "",
                         400, "invalid_argument", "from"}});
}

TEST_CASE("a view is saved for everyone, and hostile names and queries stay text") {
  TestServer s;
  Peer peer(s);
  CHECK(peer.call("GET", "/v1/views").body == R"({"views":[]})");
  const auto saved =
      peer.call("PUT", "/v1/views/dead%20mails", R"({"page":"jobs","query":"state=dead"})");
  CHECK(saved.status == 200);
  CHECK(
      has(saved.body, R"({"name":"dead mails","page":"jobs","query":"state=dead","by":"local",)"));
  const std::string hostile = R"(<script>alert(1)<\/script>)";
  CHECK(peer.call("PUT", "/v1/views/%3Cimg%20src=x%3E",
                  R"({"page":"jobs","query":")" + hostile + R"("})")
            .status == 200);
  CHECK(has(peer.call("GET", "/v1/views").body, R"({"views":[{"name":"<img src=x>",)"));
  CHECK(peer.call("DELETE", "/v1/views/dead%20mails").status == 204);
  check_refusals(
      peer,
      {{"DELETE", "/v1/views/dead%20mails", "", 404, "not_found", ""},
       {"PUT", "/v1/views/a%2Fb", R"({"page":"jobs"})", 400, "invalid_argument", "name"},
       {"PUT", "/v1/views/x", R"({})", 400, "invalid_argument", "page"},
       {"PUT", "/v1/views/x", R"({"page":"//evil.example"})", 400, "invalid_argument", "page"},
       {"PUT", "/v1/views/x", R"({"page":"jobs","query":"a\nb"})", 400, "invalid_argument",
        "query"}});
}

TEST_CASE("marks are for readers of everything, a view is for readers of the queue that it names") {
  TestServer s;
  Peer peer(s);
  CHECK(peer.call("POST", "/v1/marks", R"({"text":"v1 of films"})").status == 201);
  const auto save = [&](const std::string& name, const std::string& query) {
    return peer.call("PUT", "/v1/views/" + name, R"({"page":"jobs","query":")" + query + "\"}")
        .status;
  };
  CHECK(save("all", "state=dead") == 200);
  CHECK(save("mine", "state=dead&queue=ph%6Ftos") == 200);
  CHECK(save("other", "queue=films&tag=acme") == 200);
  CHECK(save("hidden-keys", "send=iban") == 200);
  const auto list = [&](const std::string& path, const std::string& token) {
    return peer.call("GET", path, "", token).body;
  };
  const std::string reader = scoped_token(s, "read", "reader");
  CHECK(has(list("/v1/marks", reader), "v1 of films"));
  CHECK(has(list("/v1/views", reader), "acme"));
  const std::string photos = scoped_token(s, "read=photos", "photos");
  CHECK(list("/v1/marks", photos) == R"({"marks":[],"next_cursor":null})");
  const std::string views = list("/v1/views", photos);
  CHECK(has(views, R"("name":"mine")"));
  for (const char* hidden : {R"("all")", "acme", "iban"}) CHECK_FALSE(has(views, hidden));
  CHECK(has(list("/v1/views", scoped_token(s, "read=photos read:payload=photos", "p")), "iban"));
}

TEST_CASE("the audit keeps who added, saved and removed marks and views") {
  TestServer s;
  Peer peer(s);
  peer.call("POST", "/v1/marks", R"({"text":"v1"})");
  peer.call("DELETE", "/v1/marks/1");
  peer.call("DELETE", "/v1/marks/1");  // refused: no record
  peer.call("PUT", "/v1/views/v", R"({"page":"jobs","query":"a=b"})");
  peer.call("DELETE", "/v1/views/v");
  const std::string audit = peer.call("GET", "/v1/audit?order=oldest_first").body;
  CAPTURE(audit);
  CHECK(has(audit, R"("action":"add_mark","object":"mark","before":null,"after":{"text":"v1"})"));
  CHECK(has(audit, R"("action":"remove_mark","object":"mark/1")"));
  CHECK(has(audit, R"("action":"put_view","object":"view/v","before":null,)"
                   R"("after":{"page":"jobs","query":"a=b"})"));
  CHECK(has(audit, R"("action":"remove_view","object":"view/v")"));
  CHECK(has(peer.call("GET", "/v1/audit/head").body, R"("records":4)"));
}

TEST_CASE("a queue shows its backlog and the estimated time to drain it") {
  TestServer s;
  Peer peer(s);
  const auto work = [&] {
    const auto claimed = s.broker->claim({.worker = "w", .queues = {"q"}}, 1s, {});
    REQUIRE(claimed->jobs.size() == 1);
    const ClaimedJob& job = claimed->jobs[0];
    REQUIRE(s.broker->finish({.worker = "w", .results = {{job.id, job.token, Complete{}}}}));
  };
  for (int i = 0; i < 6; ++i)
    REQUIRE(s.broker->enqueue({.jobs = {{.queue = "q", .kind = "k"}}}).has_value());
  const std::string before = peer.call("GET", "/v1/queues/q").body;
  CHECK(has(before, R"("backlog":{"jobs":6,"arrivals_per_second":0.)"));
  CHECK(has(before, R"("completions_per_second":0,"service_ms":null,"drain_seconds":null,)"));
  for (int i = 0; i < 3; ++i) work();
  // Callers share a result for two seconds.
  wait_until([&] { return !has(peer.call("GET", "/v1/queues/q").body, R"("service_ms":null)"); });
  const std::string after = peer.call("GET", "/v1/queues").body;
  CHECK(has(after, R"("backlog":{"jobs":3,"arrivals_per_second":0.)"));
  CHECK_FALSE(has(after, R"("drain_seconds":null)"));
  CHECK(has(after, R"("oldest_ms":)"));
  const std::string metrics = peer.call("GET", "/metrics").body;
  CHECK(has(metrics, R"(mainspring_queue_drain_seconds{queue="q"} )"));
  for (int i = 0; i < 3; ++i) work();
  CHECK(has(peer.call("GET", "/v1/queues/q").body, R"("drain_seconds":0,"oldest_ms":null})"));
}
