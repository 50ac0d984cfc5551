// OTLP: spans as the JSON that an OpenTelemetry collector takes, and what its answer says.
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
// Spans that the collector refused, by the body of an answer with status 200. 0 = none, or the body
// says nothing of it.
std::int64_t rejected_spans(std::string_view body);

}  // namespace mainspring
