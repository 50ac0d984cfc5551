// Breakers: calls about breakers, implemented by the broker and by the client of a server.
//
// All calls block and are thread-safe.
#pragma once

#include "store/store.h"

namespace mainspring {

class Breakers {
 public:
  virtual ~Breakers() = default;

  // Creates it, or changes its settings and keeps its state. Errors: invalid_argument, overloaded
  // (kMaxBreakers), unavailable.
  virtual Result<void> put_breaker(PutBreaker request) = 0;
  // Errors of these: not_found, unavailable; of remove_breaker() also conflict (a queue names it).
  virtual Result<void> remove_breaker(const std::string& name) = 0;
  virtual Result<void> open_breaker(OpenBreaker request) = 0;
  virtual Result<void> close_breaker(const std::string& name) = 0;
  virtual Result<BreakerInfo> get_breaker(const std::string& name) = 0;
  virtual Result<std::vector<BreakerInfo>> breakers() = 0;  // all, by name
};

// Finds one by its name. Errors: not_found, those of the read.
Result<BreakerInfo> find_breaker(const Store& store, const std::string& name, WallTime now);

}  // namespace mainspring
