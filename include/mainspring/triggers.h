// Triggers of an engine: define, fire and pause them, and read their ledgers.
//
// What a trigger is: trigger.h. Guide: docs/guides/triggers.md.
#pragma once

#include <string>
#include <vector>

#include "mainspring/trigger.h"

namespace mainspring {

class Triggers;

struct FiredTrigger {
  JobId job = 0;           // 0: the event may have fired before, and its row is removed
  bool duplicate = false;  // the event had fired
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable; of all but put() and list() also not_found.
class EngineTriggers {
 public:
  explicit EngineTriggers(Triggers& triggers) : triggers_(&triggers) {}

  // Defines or changes it. `secret`: for http, the secret that callers use; "" = unchanged. Only
  // servers watch folders. Errors: forbidden, overloaded (kMaxTriggers).
  Result<void> put(Trigger trigger, std::string secret = "");
  // Acts like a request with this body (JSON). An `event` that has fired does not fire again; ""
  // fires each time. Errors: conflict (paused), invalid_argument also if args refer to a missing
  // value; those of Engine::enqueue().
  Result<FiredTrigger> fire(const std::string& name, std::string body = "null",
                            std::string event = "");
  Result<void> pause(const std::string& name, std::string reason = "");
  Result<void> resume(const std::string& name);
  // Removes it and its ledger.
  Result<void> remove(const std::string& name);
  // Without the secret.
  Result<TriggerInfo> get(const std::string& name);
  // By name, up to `limit`, 1 to 1000, names after `after`; "" = from the first.
  Result<std::vector<TriggerInfo>> list(int limit = 100, const std::string& after = "");
  // Fired events, newest first: up to `limit` rows, 1 to 1000, older than `before`; 0 = from the
  // newest.
  Result<TriggerEventPage> ledger(const std::string& name, int limit = 100,
                                  std::int64_t before = 0);

 private:
  Triggers* triggers_;
};

}  // namespace mainspring
