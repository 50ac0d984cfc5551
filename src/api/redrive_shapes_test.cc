// Redrive requests: decoding, validation, encoding, and the job that a redrive becomes.
#include "api/redrive_shapes.h"

#include <doctest/doctest.h>

#include "model/callback.h"

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("a redrive decodes to what was encoded, and selects everything without a filter") {
  const std::string text =
      R"({"queue":"q","kind":"k","tag":"t","fingerprint":"1f0c6a2be4d93857","rate":"20/s",)"
      R"("canary":true,"limit":7})";
  const auto order = decode_redrive_order(text);
  REQUIRE(order);
  CHECK(order->filter.queue == "q");
  CHECK(order->filter.fingerprint == "1f0c6a2be4d93857");
  CHECK(order->pace.canary);
  CHECK(order->pace.limit == 7);
  std::string again;
  encode_redrive_order(*order, again);
  CHECK(again == text);
  for (const char* all : {"", "{}"}) {
    const auto everything = decode_redrive_order(all);
    REQUIRE(everything);
    CHECK(everything->filter.queue.empty());
    CHECK_FALSE(everything->pace.canary);
    CHECK(everything->pace.limit == RedrivePace::kMaxRedriven);
  }
}

TEST_CASE("an invalid redrive is refused with its field") {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"queue":"a b"})", "queue"},
      {R"({"queue":""})", "queue"},
      {R"({"tag":""})", "tag"},
      {R"({"fingerprint":""})", "fingerprint"},
      {R"({"kind":"-"})", "kind"},
      {R"({"fingerprint":"x"})", "fingerprint"},
      {R"({"rate":"20"})", "rate"},
      {R"({"rate":"0/s"})", "rate"},
      {R"({"canary":1})", "canary"},
      {R"({"limit":0})", "limit"},
      {R"({"limit":1000001})", "limit"},
      {R"({"tag":")"
       "0123456789012345678901234567890123456789012345678901234567890123456789"
       R"("})",
       "tag"},
      {R"({"after":7})", "after"}};
  for (const auto& one : bad) {
    const std::string text = one.first, field = one.second;
    CAPTURE(text);
    const auto order = decode_redrive_order(text);
    REQUIRE_FALSE(order);
    CHECK(order.error().code == ErrorCode::invalid_argument);
    CHECK(order.error().field == field);
  }
}

TEST_CASE("a redrive is a job of the engine's own queue, unique per selection") {
  const auto order = decode_redrive_order(R"({"queue":"q","rate":"5/s"})");
  REQUIRE(order);
  const NewJob job = redrive_job(*order);
  CHECK(job.queue == kRedriveQueue);
  CHECK(job.kind == kRedriveKind);
  CHECK(job.args == R"({"queue":"q","rate":"5/s"})");
  CHECK(job.timeout == kForever);
  REQUIRE(job.unique);
  CHECK(job.unique->key == redrive_job({.filter = {.queue = "q"}, .pace = {}}).unique->key);
  CHECK(job.unique->key != redrive_job({.filter = {.queue = "p"}, .pace = {}}).unique->key);
}

TEST_CASE("rates are N/s, N/m or N/h") {
  CHECK(*parse_rate("") == 0s);
  CHECK(*parse_rate("20/s") == 50ms);
  CHECK(*parse_rate("2/m") == 30s);
  CHECK(*parse_rate("1/h") == 1h);
  for (const char* bad : {"20", "/s", "0/s", "-1/s", "20/d", "20/ss", "1.5/s", "2000000/s"}) {
    CAPTURE(bad);
    const auto rate = parse_rate(bad);
    REQUIRE_FALSE(rate);
    CHECK(rate.error().code == ErrorCode::invalid_argument);
    CHECK(rate.error().field == "rate");
  }
}
