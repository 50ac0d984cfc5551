// The JSON shapes of /v1/host.
#pragma once

#include "api/json.h"
#include "host/control.h"

namespace mainspring::http {

void write_host(JsonWriter& w, const HostView& host);
void write_layers(JsonWriter& w, const HostView& host);  // the value: an array
void write_host_job(JsonWriter& w, const JobView& job);
void write_host_run(JsonWriter& w, const RunRecord& run);
// `ended`: nothing more will be written. `run`: the id of the run, "" = not of a run.
void write_host_log(JsonWriter& w, const LogText& log, bool ended, std::string_view run);

}  // namespace mainspring::http
