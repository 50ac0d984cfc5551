// Operations on triggers: jobs made by events from outside.
//
// Rules, each applied in one transaction (src/trigger implements them for all stores):
//   - An event with an id that is in the ledger makes no second job: the answer is the job of the
//     first delivery.
//   - The job and its ledger row are committed together.
//   - The ledger keeps kTriggerRows rows of each trigger. For removed rows, the store keeps the
//     time up to which rows were removed (TriggerInfo::forgotten). A FireTrigger with a `made_at`
//     up to that time does not fire, because it may have fired already.
#pragma once

#include <optional>
#include <string>

#include "mainspring/trigger.h"
#include "model/access.h"
#include "store/lease_operations.h"
#include "store/schedule_operations.h"

namespace mainspring {

// The definition has been validated, and its queue is within. Answers PutTriggerResult. Errors:
// forbidden (a trigger of that name exists for a queue outside), overloaded (kMaxTriggers),
// invalid_argument (a new http trigger without a secret).
struct PutTrigger {
  Trigger trigger;
  std::string secret;            // as in TriggerInfo; "" = keep the present one
  bool made = false;             // use the secret only if the trigger has none
  std::optional<bool> paused{};  // nullopt: unchanged; a new trigger is not paused
  Within within{};
};
struct PutTriggerResult {
  std::int64_t version = 1;
  PutOutcome outcome = PutOutcome::unchanged;
  bool secret_taken = false;  // the trigger now has the given secret
};

// For `within`: a trigger is visible to callers that may use the queue of its jobs.

// Removes the trigger and its ledger. Answers Done. Errors: not_found.
struct RemoveTrigger {
  std::string name;
  Within within{};
};
// Answers Done. Errors: not_found.
struct PauseTrigger {
  std::string name;
  bool paused = true;
  std::string reason{};
  Within within{};
};
// Answers TriggerFired. Errors: not_found, conflict (paused; or, with the field "version", the
// definition has changed), and the errors of Enqueue.
struct FireTrigger {
  std::string name;
  std::string event;  // the event's id; "" = none, always fires
  std::string args;   // the job's complete args
  std::optional<WallTime> made_at{};
  std::int64_t version = 0;  // the definition that `args` were made for; 0 = any
  Fence fence{};
  Within within{};
};
struct TriggerFired {
  JobId job = 0;           // 0: it may have fired, its ledger row is gone
  bool duplicate = false;  // the event had already fired
};

}  // namespace mainspring
