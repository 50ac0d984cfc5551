// TraceSettings: the supported OpenTelemetry environment variables.
//
// Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"
#include "model/trace_context.h"

namespace mainspring {

// Decides which traces are exported.
struct Sampler {
  bool parent_based = true;  // a job with a context follows its flag
  double ratio = 1;          // of the other traces: 0 to 1

  // By the trace id, so that every node and every retry decides the same.
  bool samples(const std::array<std::uint8_t, 16>& trace) const;
};

// Where clients reach the server that makes the spans. "" and 0 = not known.
struct TraceServer {
  std::string address;
  std::uint16_t port = 0;
};

struct TraceSettings {
  std::string url;       // of the collector's traces endpoint
  std::string variable;  // that named it, for messages
  std::vector<std::pair<std::string, std::string>> headers;
  Duration timeout = std::chrono::seconds(10);
  std::vector<std::pair<std::string, std::string>> resource;  // service.name is among them
  Sampler sampler;
  std::size_t max_queue = 2048;  // spans
  std::size_t max_batch = 512;   // spans
  Duration delay = std::chrono::seconds(5);
  TraceServer server{};  // not set by trace_settings()
};

// A URL for logs and messages: scheme, host, port and path, without what may be a secret. "***"
// replaces a host that cannot be told from a user or password.
std::string shown_endpoint(std::string_view url);

// The settings, or nullopt: traces are not exported, because no endpoint is given or a variable
// turns them off. `value` reads a variable; nullopt = not set. `warnings` gets a sentence for each
// value that is ignored. Errors: invalid_argument, field = the variable (an endpoint that is no
// URL).
Result<std::optional<TraceSettings>> trace_settings(
    const std::function<std::optional<std::string>(std::string_view)>& value,
    std::vector<std::string>& warnings);

}  // namespace mainspring
