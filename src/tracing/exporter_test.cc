// The exporter against collectors that answer, refuse, or do not answer.
#include "tracing/exporter.h"

#include <doctest/doctest.h>

#include "outgoing/tiny_server.h"
#include "telemetry/keeping_log.h"

namespace mainspring {
namespace {

using testing::TinyServer;

struct ExporterRig {
  explicit ExporterRig(const std::string& url, std::size_t max_queue = 100) {
    TraceSettings settings{.url = url,
                           .variable = "OTEL_EXPORTER_OTLP_ENDPOINT",
                           .headers = {{"api-key", "k"}},
                           .resource = {{"service.name", "jobs"}},
                           .max_queue = max_queue,
                           .max_batch = 10,
                           .delay = std::chrono::milliseconds(1)};
    settings.timeout = std::chrono::seconds(60);
    auto opened = Exporter::open(std::move(settings), clock, log, registry);
    REQUIRE(opened);
    exporter = std::move(*opened);
  }
  std::int64_t spans(const std::string& outcome) {
    return registry.counter("mainspring_otlp_spans_total", "", {{"outcome", outcome}}).value();
  }
  SystemClock clock;
  KeepingLog log;
  Registry registry;
  std::unique_ptr<Exporter> exporter;
};

Span span_named(const std::string& name) {
  return {.context = {.trace = {1}, .span = {2}, .sampled = true},
          .parent = {},
          .state = {},
          .name = name,
          .start = {},
          .end = {},
          .attributes = {}};
}

TEST_CASE("spans reach the collector with the headers that the operator set") {
  TinyServer server;
  ExporterRig rig(server.url("/v1/traces"));
  rig.exporter->add(span_named("send photos"));
  server.wait_for(1);
  rig.exporter->stop();
  CHECK(rig.spans("exported") == 1);
  const std::string request = server.requests().at(0);
  CHECK(request.starts_with("POST /v1/traces "));
  CHECK(request.find("api-key: k") != request.npos);
  CHECK(request.find("send photos") != request.npos);
}

TEST_CASE("spans that wait at the stop are sent") {
  TinyServer server;
  ExporterRig rig(server.url());
  for (int i = 0; i < 25; ++i) rig.exporter->add(span_named("one"));
  rig.exporter->stop();
  rig.exporter->stop();
  CHECK(rig.spans("exported") == 25);
  rig.exporter->add(span_named("late"));
  CHECK(rig.spans("dropped") == 1);
}

TEST_CASE("a collector that never answers blocks no caller and does not hold up the stop") {
  TinyServer server({"", "", "", "", "", ""});
  ExporterRig rig(server.url("/v1/traces?key=secret"), 20);
  rig.exporter->add(span_named("first"));
  server.wait_for(1);
  for (int i = 0; i < 1000; ++i) rig.exporter->add(span_named("more"));
  CHECK(rig.spans("dropped") == 980);
  rig.exporter->stop();
  CHECK(rig.spans("exported") == 0);
  CHECK(rig.log.text().find("warn traces are not exported") != std::string::npos);
  CHECK(rig.log.text().find("/v1/traces") != std::string::npos);
  CHECK(rig.log.text().find("secret") == std::string::npos);
}

TEST_CASE("a batch is sent again when the collector asks for it, and dropped when it refuses it") {
  TinyServer server({"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
                     testing::kOk, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"});
  ExporterRig rig(server.url());
  rig.exporter->add(span_named("again"));
  server.wait_for(2);
  rig.exporter->add(span_named("refused"));
  server.wait_for(3);
  rig.exporter->stop();
  CHECK(rig.spans("exported") == 1);
  CHECK(rig.spans("failed") == 1);
  CHECK(rig.log.text().find("traces are exported again") != std::string::npos);
}

TEST_CASE("spans that the collector refuses in part are counted") {
  const std::string body = R"({"partialSuccess":{"rejectedSpans":"1"}})";
  TinyServer server(
      {fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body)});
  ExporterRig rig(server.url());
  rig.exporter->add(span_named("one"));
  rig.exporter->stop();
  CHECK(rig.spans("rejected") == 1);
  CHECK(rig.spans("exported") == 0);
}

}  // namespace
}  // namespace mainspring
