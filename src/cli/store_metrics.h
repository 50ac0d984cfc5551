// Gauges of a store's disk: space, reserve, log, and the last backup and verification.
//
// The times of the last backup and verification are those of two empty files in the data directory.
#pragma once

#include <string>

#include "telemetry/metrics.h"

namespace mainspring {
class Store;
}

namespace mainspring::cli {

inline constexpr const char* kLastBackup = "LAST_BACKUP";
inline constexpr const char* kLastVerify = "LAST_VERIFY";

// Sets the time of DIRECTORY/NAME to now. A directory that cannot be written is ignored: a backup
// of a copy is allowed.
void stamp(const std::string& directory, const char* name);

// `directory` = "": the store is a database. `store` outlives the registry's last render.
void register_store_metrics(Registry& registry, const std::string& directory, const Store& store);

}  // namespace mainspring::cli
