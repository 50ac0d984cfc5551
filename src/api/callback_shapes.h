// Callbacks in JSON: "callback": {"url", "on"?} beside "then", where the engine has one follow-up.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "mainspring/job.h"

namespace mainspring {

// Reads them; adds to `out`. Of a request: the URL is read by the rules of outgoing requests, and
// queues that are the engine's are refused.
bool read_callback(JsonReader& in, std::vector<FollowUp>& out);
bool read_then(JsonReader& in, std::vector<FollowUp>& out);
// Of an answer: as it comes, and null for a URL that is not shown.
bool read_shown_callback(JsonReader& in, std::vector<FollowUp>& out);
// Both, where there are any. Masked: without data and URL.
void write_follow_up_fields(JsonWriter& w, const std::vector<FollowUp>& all,
                            Payload payload = Payload::shown);

std::vector<std::string_view> callback_fields();  // for request_fields()

FollowUp make_callback(std::string_view url, std::uint8_t on);
// "" if it is none, or has none.
std::string callback_url(const FollowUp& follow_up);

}  // namespace mainspring
