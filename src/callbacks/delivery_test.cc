// Deliveries: the request for a job of the callback queue, and the outcome of a response.
#include "callbacks/delivery.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

Job job_of(std::string args) {
  Job job;
  job.id = 42;
  job.args = std::move(args);
  job.created_at = WallTime::from_us(std::int64_t{1'700'000'000} * 1'000'000 + 123);
  return job;
}

constexpr const char* kArgs =
    R"({"job":7,"queue":"mails","kind":"send","state":"completed","attempt":1,)"
    R"("result":{"n": 1.50,"deep":{"data":1}},"data":{"url":"https://example.com/hook"}})";

OutgoingResponse answer(int status, std::optional<Duration> retry_after = {}) {
  return {.status = status, .reason = "Because", .retry_after = retry_after};
}

template <class T>
bool is(const Outcome& outcome) {
  return std::holds_alternative<T>(outcome);
}

}  // namespace

TEST_CASE("a body has the outcome, byte for byte, and not its own URL") {
  const auto delivery = delivery_of(job_of(kArgs));
  REQUIRE_MESSAGE(delivery, delivery.error().message);
  CHECK(delivery->url == "https://example.com/hook");
  CHECK(delivery->body ==
        R"({"type":"job.completed","timestamp":"2023-11-14T22:13:20.000123Z","data":)"
        R"({"job":7,"queue":"mails","kind":"send","state":"completed","attempt":1,)"
        R"("result":{"n": 1.50,"deep":{"data":1}}}})");
}

TEST_CASE("a message of a running job is a delivery of its own type") {
  const auto delivery = delivery_of(job_of(
      R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":1,"result":null,)"
      R"("progress":null,"token":3,"seq":1,"message":{"n": 1},"data":{"url":"https://a.b/"}})"));
  REQUIRE_MESSAGE(delivery, delivery.error().message);
  CHECK(delivery->body ==
        R"({"type":"job.message","timestamp":"2023-11-14T22:13:20.000123Z","data":)"
        R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":1,"result":null,)"
        R"("progress":null,"token":3,"seq":1,"message":{"n": 1}}})");
}

TEST_CASE("changed progress of a running job is a delivery of its own type") {
  const auto delivery = delivery_of(job_of(
      R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":1,"result":null,)"
      R"("progress":{"value":0.5,"text":"message"},"token":3,"data":{"url":"https://a.b/"}})"));
  REQUIRE_MESSAGE(delivery, delivery.error().message);
  CHECK(delivery->body ==
        R"({"type":"job.progress","timestamp":"2023-11-14T22:13:20.000123Z","data":)"
        R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":1,"result":null,)"
        R"("progress":{"value":0.5,"text":"message"},"token":3}})");
}

TEST_CASE("every attempt of a delivery has the same id; other deliveries have other ids") {
  Job job = job_of(kArgs);
  const std::string id = delivery_of(job)->id;
  CHECK(id == "msg_60a24181e407b_42");
  job.attempt = 3;
  job.run_at = job.created_at + 1h;
  CHECK(delivery_of(job)->id == id);
  job.id = 43;
  CHECK(delivery_of(job)->id != id);
  job.id = 42;  // of another store
  job.created_at = job.created_at + 1us;
  CHECK(delivery_of(job)->id != id);
}

TEST_CASE("args of another shape are not a delivery") {
  for (const char* args :
       {"[]", "{}", R"({"state":"completed"})", R"({"state":"completed","data":null})",
        R"({"state":"completed","data":{}})", R"({"state":"done","data":{"url":"https://a.b/"}})",
        R"({"data":{"url":"https://a.b/"}})", R"({"state":3,"data":{"url":"https://a.b/"}})"}) {
    CAPTURE(args);
    CHECK_FALSE(delivery_of(job_of(args)));
  }
}

TEST_CASE("a request is signed over its id, its time and its body") {
  const auto delivery = delivery_of(job_of(kArgs));
  REQUIRE(delivery);
  const auto keys = parse_signing_keys("f", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  REQUIRE(keys);
  const WallTime now = WallTime::from_us(std::int64_t{1'700'000'100} * 1'000'000 + 999'999);
  const OutgoingRequest request = request_of(*delivery, *keys, now);
  REQUIRE(request.headers.size() == 4);
  CHECK(request.headers[0].value == "application/json");
  CHECK(request.headers[1].value == delivery->id);
  CHECK(request.headers[2].name == "webhook-timestamp");
  CHECK(request.headers[2].value == "1700000100");
  CHECK(verify_signature(*keys, {delivery->id, "1700000100", request.body},
                         request.headers[3].value, now));
}

TEST_CASE("2xx succeeds, 410 stops deliveries, everything else is retried, redirects too") {
  CHECK(std::get<Complete>(outcome_of(answer(200), 5s)).result == R"({"status":200})");
  CHECK(is<Complete>(outcome_of(answer(204), 5s)));
  CHECK(std::get<CancelJob>(outcome_of(answer(410), 5s)).reason == "gone");
  for (const int status : {300, 301, 302, 304, 307, 308, 400, 401, 404, 408, 425, 429, 500, 503}) {
    CAPTURE(status);
    const Outcome outcome = outcome_of(answer(status), 5s);
    REQUIRE(is<Retry>(outcome));
    CHECK(std::get<Retry>(outcome).after == 5s);
    CHECK(std::get<Retry>(outcome).error.find(std::to_string(status)) != std::string::npos);
  }
}

TEST_CASE("a receiver that asks for more time gets it, up to a limit") {
  const auto after = [](std::optional<Duration> asked) {
    return std::get<Retry>(outcome_of(answer(503, asked), 20s)).after;
  };
  CHECK(after({}) == 20s);
  CHECK(after(1s) == 20s);
  CHECK(after(90s) == 90s);
  CHECK(after(24h * 300) == kMaxRetryAfter);
}
