// The history as JSON. See shapes.h for the contract of encode_… and decode_….
#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "mainspring/history.h"

namespace mainspring {

// {"queue", "kind", "from", "to", "step", "points": [{"at", "enqueued", "started", "completed",
// "failed", "dead", "cancelled", "wait", "run"}], "total"}; wait and run are {"count", "p50_ms",
// "p95_ms", "p99_ms"}. The total is a point without "at".
void encode_history(const History& history, std::string& out);
Result<History> decode_history(std::string_view body);
// Writes the key `name` and the percentiles of one kind of time, as within the history.
void write_times(JsonWriter& w, std::string_view name, const HistoryTimes& times);

}  // namespace mainspring
