// Operations on triggers: what events from outside make.
//
// Rules, kept in one transaction each (src/trigger has them, for every store):
//   - An event with an id that is in the ledger makes nothing again: it is answered with the job
//     that it made.
//   - The job and the row of the ledger are there together or not at all.
//   - The ledger keeps kTriggerRows of each trigger. Of what is gone from it is remembered until
//     when it came to be (TriggerInfo::forgotten): a FireTrigger with a `made_at` up to then fires
//     no more, as nobody can tell whether it has.
#pragma once

#include <optional>
#include <string>

#include "mainspring/trigger.h"
#include "model/access.h"
#include "store/lease_operations.h"
#include "store/schedule_operations.h"

namespace mainspring {

// The definition has been validated, and its queue is within. Answers PutTriggerResult. Errors:
// forbidden (there is one of that name for a queue outside), overloaded (kMaxTriggers),
// invalid_argument (with http, new, and no secret).
struct PutTrigger {
  Trigger trigger;
  std::string secret;            // as TriggerInfo has it; "" = the one that it has
  bool made = false;             // the secret is only for one that has none
  std::optional<bool> paused{};  // nullopt: as it is; a new one is not
  Within within{};
};
struct PutTriggerResult {
  std::int64_t version = 1;
  PutOutcome outcome = PutOutcome::unchanged;
  bool secret_taken = false;  // it is the trigger's from now on
};

// For `within`: a trigger is there for whoever may touch the queue of its jobs.

// Its ledger goes with it. Answers Done. Errors: not_found.
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
// Answers TriggerFired. Errors: not_found, conflict (paused; with the field "version": it has
// another definition now), those of an Enqueue.
struct FireTrigger {
  std::string name;
  std::string event;  // its id; "" = none, it fires
  std::string args;   // of the job, complete
  std::optional<WallTime> made_at{};
  std::int64_t version = 0;  // that `args` were made for; 0 = any
  Fence fence{};
  Within within{};
};
struct TriggerFired {
  JobId job = 0;           // 0: it may have fired before, and is forgotten
  bool duplicate = false;  // it had fired
};

}  // namespace mainspring
