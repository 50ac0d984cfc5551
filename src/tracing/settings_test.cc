// OTEL_* variables, valid and invalid.
#include "tracing/settings.h"

#include <doctest/doctest.h>

#include <map>

namespace mainspring {
namespace {

struct Read {
  Result<std::optional<TraceSettings>> settings;
  std::vector<std::string> warnings;
};
Read read(const std::map<std::string, std::string, std::less<>>& variables) {
  std::vector<std::string> warnings;
  auto settings = trace_settings(
      [&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      warnings);
  return {std::move(settings), std::move(warnings)};
}

TEST_CASE("traces are exported only where an endpoint is given and nothing turns them off") {
  CHECK_FALSE(*read({}).settings);
  const std::pair<const std::string, std::string> endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT",
                                                              "http://localhost:4318/"};
  CHECK_FALSE(*read({endpoint, {"OTEL_SDK_DISABLED", "TRUE"}}).settings);
  CHECK_FALSE(*read({endpoint, {"OTEL_TRACES_EXPORTER", "none"}}).settings);
  const auto other = read({endpoint, {"OTEL_TRACES_EXPORTER", "zipkin"}});
  CHECK_FALSE(*other.settings);
  CHECK(other.warnings.size() == 1);
  const auto on = read({endpoint});
  REQUIRE(*on.settings);
  CHECK((**on.settings).url == "http://localhost:4318/v1/traces");
  CHECK((**on.settings).resource ==
        decltype(TraceSettings::resource){{"service.name", "mainspring"}});
  CHECK((**on.settings).sampler.ratio == 1);
}

TEST_CASE("variables for traces override those for all signals") {
  const auto both = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"},
                          {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://b/own"},
                          {"OTEL_EXPORTER_OTLP_HEADERS", "x=1"},
                          {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=a%20b, y = 2 ,,"},
                          {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                          {"OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment=blue"},
                          {"OTEL_SERVICE_NAME", "jobs"},
                          {"OTEL_BSP_SCHEDULE_DELAY", "100"},
                          {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10"}});
  REQUIRE(*both.settings);
  const TraceSettings& settings = **both.settings;
  CHECK(settings.url == "https://b/own");
  CHECK(settings.headers == decltype(settings.headers){{"api-key", "a b"}, {"y", "2"}});
  CHECK(settings.timeout == std::chrono::milliseconds(250));
  CHECK(settings.resource ==
        decltype(settings.resource){{"deployment", "blue"}, {"service.name", "jobs"}});
  CHECK(settings.delay == std::chrono::milliseconds(100));
  CHECK(settings.max_batch == 10);
  CHECK(both.warnings.empty());
}

TEST_CASE("invalid values are refused or ignored with a warning") {
  CHECK(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"}}).settings.error().field ==
        "OTEL_EXPORTER_OTLP_ENDPOINT");
  CHECK(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"},
              {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}})
            .settings.error()
            .field == "OTEL_EXPORTER_OTLP_PROTOCOL");
  const auto odd = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"},
                         {"OTEL_EXPORTER_OTLP_HEADERS", "secret"},
                         {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                         {"OTEL_TRACES_SAMPLER", "traceidratio"},
                         {"OTEL_TRACES_SAMPLER_ARG", "7"},
                         {"OTEL_BSP_MAX_QUEUE_SIZE", "-1"}});
  REQUIRE(*odd.settings);
  CHECK(odd.warnings.size() == 4);
  for (const std::string& warning : odd.warnings) CHECK(warning.find("secret") == warning.npos);
}

TEST_CASE("a protocol that is not supported is named in a warning") {
  const auto binary = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"},
                            {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}});
  REQUIRE(*binary.settings);
  REQUIRE(binary.warnings.size() == 1);
  CHECK(
      binary.warnings[0].starts_with("OTEL_EXPORTER_OTLP_PROTOCOL \"http/protobuf\": traces are "
                                     "sent as http/json"));
  CHECK(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"},
              {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"}})
            .warnings.empty());
}

TEST_CASE("a URL is shown without its secrets") {
  CHECK(shown_endpoint("https://a.example:4318/v1/traces?key=secret#x") ==
        "https://a.example:4318/v1/traces");
  CHECK(shown_endpoint("http://[::1]:4318/v1") == "http://[::1]:4318/v1");
  CHECK(shown_endpoint("http://[::1]/v1") == "http://[::1]/v1");
  for (const char* const bad :
       {"http://user:secret@host/v1", "http://user:sec/ret@host/v1", "user:secret@host",
        "http://user:secret?@host", "secret@host:1", "http://", "", "http://?secret"}) {
    CAPTURE(bad);
    CHECK(shown_endpoint(bad).find("sec") == std::string::npos);
  }
}

TEST_CASE("a URL with a password is refused by the name of its variable, without the password") {
  for (const char* const url : {"https://user:secret@a/x", "ftp://user:secret@a/x"}) {
    const auto refused = read({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url}});
    REQUIRE_FALSE(refused.settings);
    CHECK(refused.settings.error().field == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    CHECK(refused.settings.error().message.starts_with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT \""));
    CHECK(refused.settings.error().message.find("secret") == std::string::npos);
  }
}

TEST_CASE("the sampler takes its share of traces, the same on every node") {
  Sampler sampler{.ratio = 0.25};
  std::array<std::uint8_t, 16> trace{};
  trace[8] = 0x3f;
  CHECK(sampler.samples(trace));
  trace[8] = 0x40;
  CHECK_FALSE(sampler.samples(trace));
  CHECK(Sampler{.ratio = 1}.samples(trace));
  CHECK_FALSE(Sampler{.ratio = 0}.samples(trace));
}

}  // namespace
}  // namespace mainspring
