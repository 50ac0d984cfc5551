// The limits of a queue as JSON: {"concurrency": 5 | null, "rate": {"count": 100, "per": "1m",
// "kind": "bucket", "burst": 20} | null, "per_key"?: {"concurrency"?: 2, "fair"?: true,
// "weights"?: {"acme": 3}}, "ageing"?: "10m", "breaker"?: "geocoder"}. The stores keep the same
// text.
#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "store/operations.h"

namespace mainspring {

void write_limits(JsonWriter& w, const QueueLimits& limits);
bool read_limits(JsonReader& in, QueueLimits& limits);  // within an object of something else

std::string limits_text(const QueueLimits& limits);  // "" = none
// Errors: invalid_argument.
Result<QueueLimits> parse_limits(std::string_view text);

// The limits; missing or null = none.
Result<SetQueueLimits> decode_limits_request(std::string queue, std::string_view body);
void encode_limits_request(const SetQueueLimits& request, std::string& out);
// {"name", "limits"}
void encode_limits_response(const SetQueueLimits& request, std::string& out);

}  // namespace mainspring
