// Breakers of an engine: set, looked at, opened and closed by hand.
//
//   engine.breakers().put("geocoder", {.failures = 3});
//   engine.queues().set_limits("addresses", {.breaker = "geocoder"});
//
// What a breaker is: breaker.h. Guide: docs/guides/breakers.md.
#pragma once

#include <string>
#include <vector>

#include "mainspring/breaker.h"

namespace mainspring {

class Breakers;

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (with the field), unavailable; of all but put() and list() not_found.
class EngineBreakers {
 public:
  explicit EngineBreakers(Breakers& breakers) : breakers_(&breakers) {}

  // Made if it is new; one that is there keeps its state. Errors: overloaded (kMaxBreakers).
  Result<void> put(const std::string& name, BreakerSettings settings = {});
  Result<BreakerInfo> get(const std::string& name);
  Result<std::vector<BreakerInfo>> list();  // all, by name
  // For exactly so long; 0 = for its open_for.
  Result<void> open(const std::string& name, Duration open_for = Duration(0));
  // Forgets what it has counted, too.
  Result<void> close(const std::string& name);
  // Errors: conflict (a queue names it).
  Result<void> remove(const std::string& name);

 private:
  Breakers* breakers_;
};

}  // namespace mainspring
