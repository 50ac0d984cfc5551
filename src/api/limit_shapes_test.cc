// Limits as JSON: what is written is read, and what is wrong is named.
#include "api/limit_shapes.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

TEST_CASE("limits come back from their text as they were") {
  const QueueLimits all[] = {
      {},
      {.concurrency = 5, .rate = {}},
      {.concurrency = {}, .rate = RateLimit{100, std::chrono::minutes(1), RateKind::sliding, 0}},
      {.concurrency = 1,
       .rate = RateLimit{3, std::chrono::milliseconds(1500), RateKind::bucket, 7}},
  };
  for (const QueueLimits& limits : all) {
    const auto read = parse_limits(limits_text(limits));
    REQUIRE(read);
    CHECK(*read == limits);
  }
  CHECK(limits_text({}).empty());
}

TEST_CASE("a request names what is wrong with it") {
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
}

}  // namespace
}  // namespace mainspring
