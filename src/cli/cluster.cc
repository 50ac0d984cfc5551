// Sets up the links of a server, and a leader that never changes.
#include "cli/cluster.h"

#include <cstdlib>

#include "cli/support.h"
#include "env/private_files.h"

namespace mainspring::cli {

Result<void> open_cluster(HttpOptions& http, const Clock& clock, Log& log, Registry& registry,
                          ServedCluster& cluster) {
  const char* const file = std::getenv("MAINSPRING_CLUSTER_KEY_FILE");
  const char* const leader = std::getenv("MAINSPRING_FOLLOW");
  if (file == nullptr) return {};
  MS_TRY_ASSIGN(std::string key, read_file(file, 4096));
  key.resize(std::min(key.find_first_of("\r\n"), key.size()));
  MS_TRY_ASSIGN(cluster.links, LinkKeys::open(Secret(key)));
  cluster.leadership = std::make_unique<Leadership>(log, registry);
  cluster.leadership->set({.term = 1,
                           .node = 1,
                           .address = leader == nullptr ? "this server" : leader,
                           .since = clock.now().wall,
                           .is_me = leader == nullptr,
                           .why = "it is set up so"});
  http.links = cluster.links.get();
  http.leadership = cluster.leadership.get();
  return {};
}

}  // namespace mainspring::cli
