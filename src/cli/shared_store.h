// A store that is a PostgreSQL database: from settings to options, and what is shown of it.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "engine/node.h"

namespace mainspring::cli {

// --store or --store-file says so.
bool has_shared_store(const Options& options);
// Of a command on a store: by a flag --store or --store-file, or by another layer while --data is
// no flag.
bool means_shared_store(const Invocation& invocation);
// Errors: invalid_argument (no URL of PostgreSQL; both given; an empty file), and those of reading.
Result<PostgresOptions> postgres_options(const Options& options);
Result<NeighbourOptions> neighbour_options(const Options& options);
// For people: the URL without its password, or the file; the directory of an embedded store.
std::string shown_store(const Options& options);
bool is_postgres_url(std::string_view text);
// Without a password, in front of the host or among the parameters.
std::string shown_url(std::string_view url);

}  // namespace mainspring::cli
