// Limits as JSON: round trips and errors.
#include "api/limit_shapes.h"

#include <doctest/doctest.h>

#include "api/shapes.h"

namespace mainspring {
namespace {

TEST_CASE("limits decode to what was encoded") {
  const QueueLimits all[] = {
      {},
      {.concurrency = 5, .rate = {}},
      {.concurrency = {}, .rate = RateLimit{100, std::chrono::minutes(1), RateKind::sliding, 0}},
      {.concurrency = 1,
       .rate = RateLimit{3, std::chrono::milliseconds(1500), RateKind::bucket, 7}},
      {.concurrency = {}, .rate = {}, .per_key = {.concurrency = 3}},
      {.per_key = {.concurrency = 3, .fair = true, .weights = {{"a \" b", 0.001}, {"c", 1000}}}},
      {.per_key = {.fair = true}, .ageing = std::chrono::minutes(10)},
      {.per_key = {.rate = RateLimit{10, std::chrono::minutes(1), RateKind::bucket, 3}}},
      {.rate = RateLimit{5}, .per_key = {.concurrency = 1, .rate = RateLimit{2}, .fair = true}},
      {.concurrency = {}, .rate = {}, .breaker = "geocoder"},
      {.quarantine_after = 0},
      {.concurrency = 2, .quarantine_after = 10},
      {.concurrency = 6, .costs = {{"render", 4}, {"video:4k", 1000}}},
  };
  for (const QueueLimits& limits : all) {
    const auto read = parse_limits(limits_text(limits));
    REQUIRE(read);
    CHECK(*read == limits);
  }
  CHECK(limits_text({}).empty());
}

TEST_CASE("an invalid request is refused with its field") {
  const auto field = [](std::string_view body) {
    const auto request = decode_limits_request("q", body);
    return request ? std::string("none") : request.error().field;
  };
  CHECK(field(R"({"concurrency": 5, "rate": {"count": 10, "per": "1m"}})") == "none");
  CHECK(field(R"({})") == "none");
  CHECK(field(R"({"concurrency": 0})") == "concurrency");
  CHECK(field(R"({"rate": {"count": 10, "kind": "leaky"}})") == "rate.kind");
  CHECK(field(R"({"rate": {"count": 10, "per": "1ms"}})") == "rate.per");
  CHECK(field(R"({"rate": 5})") == "rate");
  CHECK(field(R"({"per_key": {"concurrency": 2}})") == "none");
  CHECK(field(R"({"per_key": null})") == "none");
  CHECK(field(R"({"breaker": "geo"})") == "none");
  CHECK(field(R"({"breaker": null})") == "none");
  CHECK(field(R"({"breaker": 5})") == "breaker");
  CHECK(field(R"({"quarantine_after": 0})") == "none");
  CHECK(field(R"({"quarantine_after": null})") == "none");
  CHECK(field(R"({"quarantine_after": 11})") == "quarantine_after");
  CHECK(field(R"({"quarantine_after": -1})") == "quarantine_after");
  CHECK(field(R"({"per_key": {"concurrency": 0}})") == "per_key.concurrency");
  CHECK(field(R"({"per_key": {"rate": 2}})") == "per_key.rate");
  CHECK(field(R"({"per_key": {"rate": null}})") == "none");
  CHECK(field(R"({"per_key": {"rate": {"count": 10, "per": "1m"}}})") == "none");
  CHECK(field(R"({"per_key": {"rate": {"count": 0, "per": "1m"}}})") == "per_key.rate.count");
  CHECK(field(R"({"per_key": {"rate": {"count": 1, "per": "1ms"}}})") == "per_key.rate.per");
  CHECK(field(R"({"per_key": {"rate": {"per": "1s"}}})") == "per_key.rate.count");
  CHECK(field(R"({"rate": {}})") == "rate.count");
  CHECK(field(R"({"rate": {"count": 500}})") == "rate.per");
  CHECK(field(R"({"per_key": {"rate": {"kind": "leaky"}}})") == "per_key.rate.kind");
  CHECK(field(R"({"per_key": {"rate": {"count": 1, "per": "1s", "kind": "fixed", "burst": 2}}})") ==
        "per_key.rate.burst");
  CHECK(field(R"({"per_key": {"fair": true, "weights": {"a": 0.5}}, "ageing": "1m"})") == "none");
  CHECK(field(R"({"per_key": {"fair": 1}})") == "per_key.fair");
  CHECK(field(R"({"per_key": {"weights": {"a": 2}}})") == "per_key.weights");
  CHECK(field(R"({"per_key": {"fair": true, "weights": {"a": 0}}})") == "per_key.weights.a");
  CHECK(field(R"({"per_key": {"fair": true, "weights": {"": 1}}})") == "per_key.weights");
  CHECK(field(R"({"ageing": "1ms"})") == "ageing");
  CHECK(field(R"({"costs": {"render": 4}})") == "none");
  CHECK(field(R"({"costs": null})") == "none");
  CHECK(field(R"({"costs": 4})") == "costs");
  CHECK(field(R"({"costs": {"render": 0}})") == "costs.render");
  CHECK(field(R"({"costs": {"render": 1001}})") == "costs.render");
  CHECK(field(R"({"costs": {"render": 1.5}})") == "costs.render");
  CHECK(field(R"({"costs": {"": 2}})") == "costs");
}

TEST_CASE("a cost of 1 is the default and is not stored") {
  const auto request = decode_limits_request("q", R"({"costs": {"render": 4, "thumbnail": 1}})");
  REQUIRE(request);
  CHECK(request->limits.costs == std::map<std::string, int, std::less<>>{{"render", 4}});
}

TEST_CASE("a job's limit_key is read and written, and refused together with a session") {
  const auto read = decode_enqueue_request(R"({"kind":"a","limit_key":"acme/é"})");
  REQUIRE(read);
  CHECK(read->operation.jobs.at(0).limit_key == "acme/é");
  std::string out;
  encode_enqueue_request(read->operation, out);
  CHECK(out.find(R"("limit_key":"acme/é")") != std::string::npos);
  CHECK(decode_enqueue_request(R"({"kind":"a","limit_key":null})"));
  for (const char* body : {R"({"kind":"a","limit_key":"a\nb"})", R"({"kind":"a","limit_key":5})",
                           R"({"kind":"a","limit_key":"k","session":"s"})"}) {
    CAPTURE(body);
    const auto refused = decode_enqueue_request(body);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().field == "limit_key");
  }
}

}  // namespace
}  // namespace mainspring
