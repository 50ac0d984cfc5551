// The pause of a queue as JSON: {"reason": "…", "by": "admin", "at": "…", "until": "…" | null}. The
// stores keep the same text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "store/operations.h"

namespace mainspring {

// null without a pause.
void write_pause(JsonWriter& w, const std::optional<QueuePause>& pause);
bool read_pause(JsonReader& in, std::optional<QueuePause>& pause);  // takes null

std::string pause_text(const std::optional<QueuePause>& pause);  // "" = none
// Errors: invalid_argument.
Result<std::optional<QueuePause>> parse_pause(std::string_view text);

// POST /v1/queues/{queue}/pause: {"reason"?, "until"? | "for"?}, or nothing. `now` is when "for"
// begins. Errors: invalid_argument.
Result<PauseQueue> decode_pause_queue(std::string queue, std::string_view body, WallTime now);
void encode_pause_queue(const PauseQueue& request, std::string& out);

}  // namespace mainspring
