// Triggers of an engine: set, fired by hand, paused, and their ledgers.
//
// What a trigger is: trigger.h. Guide: docs/guides/triggers.md.
#pragma once

#include <string>
#include <vector>

#include "mainspring/trigger.h"

namespace mainspring {

class Triggers;

struct FiredTrigger {
  JobId job = 0;           // 0: it may have fired before, and is forgotten
  bool duplicate = false;  // the event had fired
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (with the field), unavailable; of all but put() and list() not_found.
class EngineTriggers {
 public:
  explicit EngineTriggers(Triggers& triggers) : triggers_(&triggers) {}

  // Defines it, or changes nothing. `secret`: of one with http, what who calls has; "" = as it is.
  // Folders are watched by servers only. Errors: forbidden, overloaded (kMaxTriggers).
  Result<void> put(Trigger trigger, std::string secret = "");
  // As if a request with this body (JSON) had come. An `event` that has fired makes nothing again;
  // "" fires each time. Errors: conflict (paused), invalid_argument also where args refer to what
  // is not there; those of Engine::enqueue().
  Result<FiredTrigger> fire(const std::string& name, std::string body = "null",
                            std::string event = "");
  Result<void> pause(const std::string& name, std::string reason = "");
  Result<void> resume(const std::string& name);
  // Its ledger goes with it.
  Result<void> remove(const std::string& name);
  // Without their secrets.
  Result<TriggerInfo> get(const std::string& name);
  // By name, up to `limit`, 1 to 1000, behind `after`; "" = from the first.
  Result<std::vector<TriggerInfo>> list(int limit = 100, const std::string& after = "");
  // What has fired, newest first: up to `limit` rows, 1 to 1000, older than `before`; 0 = from the
  // newest.
  Result<TriggerEventPage> ledger(const std::string& name, int limit = 100,
                                  std::int64_t before = 0);

 private:
  Triggers* triggers_;
};

}  // namespace mainspring
