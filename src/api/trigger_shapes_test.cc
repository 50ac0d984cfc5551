// The shapes of triggers: refused requests, and definitions stored before a limit existed.
#include "api/trigger_shapes.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("a trigger's job is limited when it is put, and always readable from the store") {
  constexpr std::string_view kTrigger =
      R"({"name":"t","http":{},"job":{"queue":"q","kind":"k","unique":{"key":"u","for":"400d"}}})";
  const auto put = decode_put_trigger_request("t", kTrigger);
  REQUIRE_FALSE(put.has_value());
  CHECK(put.error().field == "job.unique.for");
  CHECK(put.error().message == "unique.for 400d: must be 0s to 365d");
  const auto kept = decode_trigger(kTrigger);
  REQUIRE(kept.has_value());
  CHECK(kept->job.unique->window == 24h * 400);
  CHECK(decode_trigger(R"({"name":"t","http":{},"job":{}})").error().field == "job.kind");
}
