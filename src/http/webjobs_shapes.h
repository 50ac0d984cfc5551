// The JSON shapes of the WebJobs API, as Azure's Kudu writes them.
#pragma once

#include "api/json.h"
#include "host/control.h"
#include "http/exchange.h"

namespace mainspring::http {

// {"Message":"…"}
Reply webjobs_message(int status, std::string_view message);
Reply webjobs_error(const Error& error);

// `base_url` is "http://host:port".
void write_webjob(JsonWriter& w, const JobView& job, const std::string& base_url, WallTime now);
void write_hook(JsonWriter& w, const HookView& hook);
// `path` is relative to the data directory and ends with '/'.
std::string encode_data_directory(std::string_view path, const std::vector<DataEntry>& entries,
                                  const std::string& base_url);
// Swagger 2.0: a POST for each job.
std::string webjobs_swagger(const std::vector<JobView>& triggered, std::string_view host);

}  // namespace mainspring::http
