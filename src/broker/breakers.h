// Breakers: what a program can ask of them, wherever the engine is, as Jobs is for jobs.
//
// All calls block and are safe from every thread.
#pragma once

#include "store/store.h"

namespace mainspring {

class Breakers {
 public:
  virtual ~Breakers() = default;

  // Made if it is new; one that is there keeps its state. Errors: invalid_argument, overloaded
  // (kMaxBreakers), unavailable.
  virtual Result<void> put_breaker(PutBreaker request) = 0;
  // Errors of these: not_found, unavailable; of remove_breaker() also conflict (a queue names it).
  virtual Result<void> remove_breaker(const std::string& name) = 0;
  virtual Result<void> open_breaker(OpenBreaker request) = 0;
  virtual Result<void> close_breaker(const std::string& name) = 0;
  virtual Result<BreakerInfo> get_breaker(const std::string& name) = 0;
  virtual Result<std::vector<BreakerInfo>> breakers() = 0;  // all, by name
};

// By its name. Errors: not_found, those of the read.
Result<BreakerInfo> find_breaker(const Store& store, const std::string& name, WallTime now);

}  // namespace mainspring
