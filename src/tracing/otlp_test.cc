// The JSON of spans against the OTLP specification.
#include "tracing/otlp.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

TEST_CASE("a span is written as OTLP requires: hex ids, integers as text, kinds as numbers") {
  Span span{
      .context = *parse_trace_parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
      .parent = std::array<std::uint8_t, 8>{1, 2, 3, 4, 5, 6, 7, 8},
      .state = "a=b",
      .name = "process \"photos\"",
      .kind = SpanKind::consumer,
      .start = WallTime::from_us(1'700'000'000'000'001),
      .end = WallTime::from_us(1'700'000'000'000'002),
      .attributes = {{"messaging.system", "mainspring"},
                     {"mainspring.job.attempt", std::int64_t{3}},
                     {"mainspring.why.gates", std::vector<std::string>{"retry"}}},
      .failed = true};
  const std::vector<Span> spans = {span};
  CHECK(
      otlp_json(spans, {{"service.name", "jobs"}}) ==
      R"({"resourceSpans":[{"resource":{"attributes":[)"
      R"({"key":"service.name","value":{"stringValue":"jobs"}}]},)"
      R"("scopeSpans":[{"scope":{"name":"mainspring"},"spans":[)"
      R"({"traceId":"4bf92f3577b34da6a3ce929d0e0e4736",)"
      R"("spanId":"00f067aa0ba902b7","parentSpanId":"0102030405060708","traceState":"a=b",)"
      R"("name":"process \"photos\"","kind":5,"startTimeUnixNano":"1700000000000001000",)"
      R"("endTimeUnixNano":"1700000000000002000","attributes":[)"
      R"({"key":"messaging.system","value":{"stringValue":"mainspring"}},)"
      R"({"key":"mainspring.job.attempt","value":{"intValue":"3"}},)"
      R"({"key":"mainspring.why.gates",)"
      R"("value":{"arrayValue":{"values":[{"stringValue":"retry"}]}}}],)"
      R"("status":{"code":2}}],"schemaUrl":"https://opentelemetry.io/schemas/1.38.0"}],)"
      R"("schemaUrl":"https://opentelemetry.io/schemas/1.38.0"}]})");
}

TEST_CASE("a collector's count of refused spans is read from any response") {
  CHECK(rejected_spans("") == 0);
  CHECK(rejected_spans("<html>") == 0);
  CHECK(rejected_spans("{}") == 0);
  CHECK(rejected_spans(R"({"partialSuccess":{}})") == 0);
  CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"5","errorMessage":"x"}})") == 5);
  CHECK(rejected_spans(R"({"a":[1],"partialSuccess":{"rejectedSpans":7}})") == 7);
  CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":-7}})") == 0);
}

}  // namespace
}  // namespace mainspring
