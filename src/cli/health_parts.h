// The parts of a server's health that depend on how it is wired: disk, certificate, database.
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
  std::string directory;           // of the store; "" = it is a database
  const Store* store = nullptr;    // outlives the parts, as the others do
  const TlsServer* tls = nullptr;  // nullptr = plain HTTP
  const Clock* clock = nullptr;
};
std::vector<std::function<HealthPart()>> health_parts(const HealthSources& sources);

}  // namespace mainspring::cli
