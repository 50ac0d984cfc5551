// Triggers: what a program can ask of them, wherever the engine is, as Jobs is for jobs.
//
// All calls block and are safe from every thread.
#pragma once

#include "api/trigger_shapes.h"
#include "store/store.h"

namespace mainspring {

class Triggers {
 public:
  virtual ~Triggers() = default;

  // `secret`: of one with http, what whoever calls has; "" = the one that it has. Errors:
  // invalid_argument (the definition; the secret, also a missing one), overloaded (kMaxTriggers),
  // forbidden, unavailable.
  virtual Result<PutTriggerResult> put_trigger(Trigger trigger, const std::string& secret,
                                               std::optional<bool> paused) = 0;
  // Errors of these: not_found, unavailable.
  virtual Result<void> remove_trigger(const std::string& name) = 0;
  virtual Result<void> pause_trigger(PauseTrigger request) = 0;
  // As if the event had come. Also conflict (paused), invalid_argument (what the job's args refer
  // to is not there), and the errors of an enqueue.
  virtual Result<TriggerFired> fire_trigger(const std::string& name,
                                            const FireTriggerRequest& event) = 0;
  // Without its secret.
  virtual Result<TriggerInfo> get_trigger(const std::string& name) = 0;
  virtual Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) = 0;
  virtual Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                                  std::int64_t before) = 0;
};

}  // namespace mainspring
