// Breakers of an engine: set, read, open and close them.
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

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable; of all but put() and list() also not_found.
class EngineBreakers {
 public:
  explicit EngineBreakers(Breakers& breakers) : breakers_(&breakers) {}

  // Creates the breaker, or changes its settings and keeps its state. Errors: overloaded
  // (kMaxBreakers).
  Result<void> put(const std::string& name, BreakerSettings settings = {});
  Result<BreakerInfo> get(const std::string& name);
  Result<std::vector<BreakerInfo>> list();  // all, by name
  // Opens it for exactly this long; 0 = for its open_for.
  Result<void> open(const std::string& name, Duration open_for = Duration(0));
  // Closes it and resets its failure count.
  Result<void> close(const std::string& name);
  // Errors: conflict (a queue names it).
  Result<void> remove(const std::string& name);

 private:
  Breakers* breakers_;
};

}  // namespace mainspring
