// Triggers: calls that the broker and the client of a server implement.
//
// All calls block and are thread-safe.
#pragma once

#include "api/trigger_shapes.h"
#include "store/store.h"

namespace mainspring {

class Triggers {
 public:
  virtual ~Triggers() = default;

  // `secret`: for http, the secret that callers use; "" = unchanged. Errors: invalid_argument (the
  // definition; the secret, also if missing), overloaded (kMaxTriggers), forbidden, unavailable.
  virtual Result<PutTriggerResult> put_trigger(Trigger trigger, const std::string& secret,
                                               std::optional<bool> paused) = 0;
  // Errors of these: not_found, unavailable.
  virtual Result<void> remove_trigger(const std::string& name) = 0;
  virtual Result<void> pause_trigger(PauseTrigger request) = 0;
  // Acts as if the event had arrived. Also conflict (paused), invalid_argument (an unresolved
  // reference in the job's args), and the errors of an enqueue.
  virtual Result<TriggerFired> fire_trigger(const std::string& name,
                                            const FireTriggerRequest& event) = 0;
  // Without the secret.
  virtual Result<TriggerInfo> get_trigger(const std::string& name) = 0;
  virtual Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) = 0;
  virtual Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                                  std::int64_t before) = 0;
};

}  // namespace mainspring
