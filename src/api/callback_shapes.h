// Callbacks in JSON: "callback": {"url", "on"?} next to "then"; the engine stores a follow-up.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "mainspring/job.h"

namespace mainspring {

// Reads one from a request and adds it to `out`. Checks the URL by the rules of outgoing requests,
// and refuses the engine's own queues.
bool read_callback(JsonReader& in, std::vector<FollowUp>& out);
bool read_then(JsonReader& in, std::vector<FollowUp>& out);
// Reads one from an answer, without checks; null for a URL that is not shown.
bool read_shown_callback(JsonReader& in, std::vector<FollowUp>& out);
// Writes both, if there are any. Masked: without data and URL.
void write_follow_up_fields(JsonWriter& w, const std::vector<FollowUp>& all,
                            Payload payload = Payload::shown);

std::vector<std::string_view> callback_fields();  // for request_fields()

FollowUp make_callback(std::string_view url, std::uint8_t on);
// "" if it is not a callback, or has no URL.
std::string callback_url(const FollowUp& follow_up);

}  // namespace mainspring
