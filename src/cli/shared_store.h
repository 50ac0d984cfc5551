// A PostgreSQL store: converts settings to options, and formats its name for people.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "engine/node.h"

namespace mainspring::cli {

// True if --store or --store-file is set.
bool has_shared_store(const Options& options);
// Whether a command means a shared store: a flag --store or --store-file is given, or another layer
// sets one and --data is not given as a flag.
bool means_shared_store(const Invocation& invocation);
// Errors: invalid_argument (not a PostgreSQL URL; both given; an empty file), and those of reading.
Result<PostgresOptions> postgres_options(const Options& options);
Result<ClusterPeersOptions> cluster_options(const Options& options);
// For people: the URL without its password, or the file; the directory of an embedded store.
std::string shown_store(const Options& options);
bool is_postgres_url(std::string_view text);
// Removes the password, before the host or among the parameters.
std::string shown_url(std::string_view url);

}  // namespace mainspring::cli
