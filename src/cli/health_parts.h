// Health parts that depend on the server's setup: disk, certificate, database.
#pragma once

#include <functional>
#include <vector>

#include "env/clock.h"
#include "http/health_part.h"

namespace mainspring {
class Store;
class TlsServer;
}  // namespace mainspring

namespace mainspring::cli {

struct HealthSources {
  std::string directory;           // of the store; "" = the store is a database
  const Store* store = nullptr;    // all pointers must outlive the parts
  const TlsServer* tls = nullptr;  // nullptr = plain HTTP
  const Clock* clock = nullptr;
};
std::vector<std::function<HealthPart()>> health_parts(const HealthSources& sources);

}  // namespace mainspring::cli
