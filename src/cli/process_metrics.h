// Metrics of the program and its process, with the names that Prometheus' own libraries use.
#pragma once

#include <string>

#include "telemetry/metrics.h"

namespace mainspring::cli {

// `store`: "sqlite" or "postgres".
void register_process_metrics(Registry& registry, const std::string& store);

}  // namespace mainspring::cli
