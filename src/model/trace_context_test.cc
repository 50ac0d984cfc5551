// Reading and writing trace contexts.
#include "model/trace_context.h"

#include <doctest/doctest.h>

#include "mainspring/job.h"

namespace mainspring {
namespace {

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST_CASE("a traceparent is read and written unchanged") {
  const auto context = parse_trace_parent(kParent);
  REQUIRE(context);
  CHECK(context->sampled);
  CHECK(format_trace_parent(*context) == kParent);
  CHECK(hex_of(context->span) == "00f067aa0ba902b7");
}

TEST_CASE("a traceparent that breaks the standard is ignored") {
  const std::string good(kParent);
  const auto with = [&](std::size_t at, std::string_view text) {
    return std::string(good).replace(at, text.size(), text);
  };
  CHECK_FALSE(parse_trace_parent(""));
  CHECK_FALSE(parse_trace_parent(good.substr(1)));
  CHECK_FALSE(parse_trace_parent(good + "-00"));  // version 00 ends there
  CHECK_FALSE(parse_trace_parent(with(0, "ff")));
  CHECK_FALSE(parse_trace_parent(with(2, "_")));
  CHECK_FALSE(parse_trace_parent(with(3, "4BF9")));
  CHECK_FALSE(parse_trace_parent(with(3, "00000000000000000000000000000000")));
  CHECK_FALSE(parse_trace_parent(with(36, "0000000000000000")));
  CHECK_FALSE(parse_trace_parent(with(53, "0g")));
  CHECK(parse_trace_parent(with(0, "cc") + "-what-comes-later"));
  CHECK_FALSE(parse_trace_parent(with(53, "00"))->sampled);
}

TEST_CASE("the context of a job is found among its headers, and only as a key") {
  const std::string entry = "\"traceparent\" : \"" + std::string(kParent) + "\"";
  CHECK(trace_of("{" + entry + "}"));
  CHECK(trace_of("{\"a\":\"b\", " + entry + "}"));
  CHECK(trace_of("{\"a\":\"traceparent\"," + entry + "}"));
  CHECK_FALSE(trace_of(""));
  CHECK_FALSE(trace_of("{}"));
  CHECK_FALSE(trace_of("{\"a\":\"traceparent\"}"));
  CHECK_FALSE(trace_of("{\"a\":\"\\\"traceparent\\\":\\\"" + std::string(kParent) + "\\\"\"}"));
  CHECK_FALSE(trace_of("{\"traceparent\":\"x\"}"));
  CHECK_FALSE(trace_of("{\"traceparent\":\"" + std::string(kParent)));
  CHECK_FALSE(trace_of("{\"traceparent\":\"\\"));
}

TEST_CASE("a context is set in any headers, and replaces one that is not valid") {
  const TraceContext context = *parse_trace_parent(kParent);
  for (const std::string before :
       {"", "{}", "{ }", R"({"a":"b"})", R"({"traceparent":"x","a":"b"})"}) {
    std::string headers = before;
    CAPTURE(before);
    REQUIRE(set_trace(headers, context));
    CHECK(trace_of(headers) == context);
    CHECK(headers.find("traceparent") == headers.rfind("traceparent"));
    CHECK((before.find('b') == std::string::npos || header_text(headers, "a") == "b"));
  }
  std::string full = R"({"a":")" + std::string(kMaxHeadersBytes - 20, 'x') + "\"}";
  const std::string unchanged = full;
  CHECK_FALSE(set_trace(full, context));
  CHECK(full == unchanged);
}

TEST_CASE("a request's context applies to jobs without their own") {
  const TraceHeaders request(kParent, "vendor=1");
  std::string fresh;
  request.add_to(fresh);
  CHECK(fresh == "{\"tracestate\":\"vendor=1\",\"traceparent\":\"" + std::string(kParent) + "\"}");
  std::string own = R"({"traceparent":"mine"})";
  request.add_to(own);
  CHECK(own == R"({"traceparent":"mine"})");
  CHECK(TraceHeaders("nonsense", "vendor=1").empty());
  CHECK(TraceHeaders(kParent, "a=\"b\"").state.empty());
  CHECK(TraceHeaders(kParent, std::string(513, 'x')).state.empty());
}

}  // namespace
}  // namespace mainspring
