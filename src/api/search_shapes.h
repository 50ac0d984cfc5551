// Searches for jobs: as a filter for a store, as a query string, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/search.h"
#include "store/operations.h"

namespace mainspring {

class JsonReader;
class JsonWriter;

// Checks every field. Relative times of `q` are measured from `now`. Errors: invalid_argument, with
// the field.
Result<JobFilter> job_filter_of(const JobSearch& search, WallTime now);
// "a,b" as states. Errors: invalid_argument.
Result<std::vector<JobState>> parse_states(std::string_view text);
// "1,2" as ids, up to kMaxSearchIds. Errors: invalid_argument.
Result<std::vector<JobId>> parse_search_ids(std::string_view text);

// The parameters that a search adds to "GET /v1/jobs?": "&state=dead,retryable&q=…"
std::string search_parameters(const JobFilter& filter);

// {"queue"?, "kind"?, "tag"?, "state"?: [], "from"?, "to"?, "ids"?: [], "q"?}
bool read_search(JsonReader& in, JobSearch& search);
void write_search(JsonWriter& w, const JobSearch& search);

std::vector<std::string_view> search_request_fields(std::string_view schema);

}  // namespace mainspring
