// Converts settings to the options of a node and its HTTP server.
#pragma once

#include "cli/options.h"
#include "engine/node.h"
#include "http/server.h"

namespace mainspring::cli {

// Errors: invalid_argument (--listen is not an address, or not a loopback address).
Result<HttpOptions> http_options(const Options& options);
// Errors: those of the URL of a shared store.
Result<NodeOptions> node_options(const Options& options);

}  // namespace mainspring::cli
