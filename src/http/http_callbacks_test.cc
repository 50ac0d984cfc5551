// Callbacks in requests: permissions, and visibility of their URLs.
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

HttpOptions with_check() {
  HttpOptions options;
  options.check_callback = [](const std::string& url) -> Result<void> {
    if (url.find("127.0.0.1") == std::string::npos) return {};
    return invalid("url", "url: its host is an address that outgoing requests may not reach");
  };
  return options;
}

bool answer_has(const Answer& answer, std::string_view text) {
  return answer.body.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a callback is stored with its job, and shown with the right to see payloads") {
  TestServer server(with_check());
  Peer peer(server);
  const Answer made = peer.call("POST", "/v1/jobs",
                                R"({"queue":"q","kind":"k","callback":{)"
                                R"("url":"https://example.com/hook/secret","on":["dead"]}})");
  REQUIRE_MESSAGE(made.status == 201, made.body);
  CHECK(answer_has(peer.call("GET", "/v1/jobs/1"),
                   R"("callback":{"url":"https://example.com/hook/secret","on":["dead"]})"));
  const std::string reader = scoped_token(server, "read=q");
  const Answer masked = Peer(server).call("GET", "/v1/jobs/1", "", reader);
  CHECK(masked.status == 200);
  CHECK(answer_has(masked, R"("callback":{"url":null,"on":["dead"]})"));
  CHECK_FALSE(answer_has(masked, "secret"));
  CHECK_FALSE(answer_has(Peer(server).call("GET", "/v1/jobs", "", reader), "secret"));
}

TEST_CASE("a callback that is not allowed is refused with its field") {
  TestServer server(with_check());
  Peer peer(server);
  const auto refused = [&](const std::string& body, std::string_view field) {
    const Answer answer = peer.call("POST", "/v1/jobs", body);
    CAPTURE(answer.body);
    CHECK(answer.status == 400);
    CHECK(answer_has(answer, "\"field\":\"" + std::string(field) + "\""));
  };
  const auto job = [](std::string_view callback) {
    return R"({"queue":"q","kind":"k","callback":)" + std::string(callback) + "}";
  };
  refused(job(R"({"url":"http://127.0.0.1/x"})"), "callback.url");
  refused(job(R"({"url":"ftp://example.com/"})"), "callback.url");
  refused(job(R"({"url":"https://u:p@example.com/"})"), "callback.url");
  refused(job(R"({"url":""})"), "callback.url");
  refused(job(R"({})"), "callback.url");
  refused(job(R"({"url":"https://example.com/","on":[]})"), "callback.on");
  refused(job(R"({"url":"https://example.com/","to":1})"), "callback.to");
  refused(R"({"jobs":[{"kind":"k"},{"kind":"k","callback":{"url":"http://127.0.0.1/"}}]})",
          "jobs[1].callback.url");
  refused(R"({"kind":"k","then":[{"queue":"mainspring.callbacks","kind":"callback"}]})",
          "then[0].queue");
  refused(R"({"queue":"mainspring.callbacks","kind":"callback"})", "queue");
  const Answer schedule = peer.call("PUT", "/v1/schedules/s",
                                    R"({"every":"1h","job":{"queue":"q","kind":"k",)"
                                    R"("callback":{"url":"http://127.0.0.1/"}}})");
  CHECK(schedule.status == 400);
  CHECK(answer_has(schedule, R"("field":"job.callback.url")"));
  CHECK(server.store->queues()->empty());
}

TEST_CASE("the engine's own queues cannot be claimed from; they can be listed and paused") {
  TestServer server;
  Peer peer(server);
  const Answer claim =
      peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["mainspring.callbacks"]})");
  CHECK(claim.status == 400);
  CHECK(answer_has(claim, "which is the engine's"));
  CHECK(peer.call("POST", "/v1/queues/mainspring.callbacks/pause?create=true").status == 200);
  CHECK(peer.call("GET", "/v1/queues/mainspring.callbacks").status == 200);
  CHECK(peer.call("GET", "/v1/jobs?queue=mainspring.callbacks").status == 200);
}

TEST_CASE("the right to enqueue includes callbacks for the jobs") {
  TestServer server;
  const std::string web = scoped_token(server, "enqueue=web");
  CHECK(Peer(server)
            .call("POST", "/v1/jobs",
                  R"({"queue":"web","kind":"k","callback":{"url":"https://example.com/"}})", web)
            .status == 201);
}
