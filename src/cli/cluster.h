// The cluster of a server, as tests set it up. Not a setting: nothing decides yet who leads.
#pragma once

#include <memory>

#include "cluster/leader.h"
#include "cluster/link.h"
#include "http/server.h"

namespace mainspring::cli {

struct ServedCluster {
  std::unique_ptr<LinkKeys> links;
  std::unique_ptr<Leadership> leadership;  // nullptr = the server stands alone
};
// From the environment: MAINSPRING_CLUSTER_KEY_FILE, whose first line is the key of the links,
// makes the server a node that leads; with MAINSPRING_FOLLOW=HOST:PORT it relays to the node there.
// `cluster` outlives the server. Errors: those of the file, invalid_argument.
Result<void> open_cluster(HttpOptions& http, const Clock& clock, Log& log, Registry& registry,
                          ServedCluster& cluster);

}  // namespace mainspring::cli
