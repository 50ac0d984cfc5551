// OTLP: spans as JSON for an OpenTelemetry collector, and the parsing of its answer.
//
// Source: https://opentelemetry.io/docs/specs/otlp/ (OTLP/HTTP, JSON Protobuf encoding: ids as hex,
// 64-bit integers as text, enumerations as numbers)
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracing/span.h"

namespace mainspring {

using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

std::string otlp_json(std::span<const Span> spans, const ResourceAttributes& resource);
// The number of spans that the collector refused, from the body of an answer with status 200. 0 =
// none, or the body does not say.
std::int64_t rejected_spans(std::string_view body);

}  // namespace mainspring
