// The rules of triggers at the door: of calls in this process, of the HTTP server, of whoever
// watches folders.
#pragma once

#include <span>

#include "api/trigger_shapes.h"

namespace mainspring {

class Broker;

inline constexpr std::size_t kMinHookTokenBytes = 16, kMaxHookTokenBytes = 256;

// A definition that makes a whole; references of its args to what its source has. Errors:
// invalid_argument.
Result<void> check_trigger(const Trigger& trigger);
// Is the folder, if it has one, below one of the roots? Errors: invalid_argument.
Result<void> check_watch_roots(const Trigger& trigger, std::span<const std::string> roots);
// What a store keeps of a secret. Errors: invalid_argument. (Keys of signatures are the caller's to
// check.)
Result<std::string> kept_secret(const HookSource& http, std::string_view secret);

// The args of the job of an event. Errors: invalid_argument (a reference to nothing), too_large.
Result<std::string> trigger_args(const Trigger& trigger, const FireTriggerRequest& event);
// What the reference finds in the event, as text; "" = nothing. What is long becomes its digest.
std::string event_id_of(std::string_view reference, const FireTriggerRequest& event);

// An event of somebody who has been let in. `fence`: of whoever leads. Errors: of fire_trigger().
struct TriggerEventSource {
  std::optional<WallTime> made_at{};
  Fence fence{};
  Within within{};
};
Result<TriggerFired> fire_event(Broker& broker, const std::string& name,
                                const FireTriggerRequest& event, const TriggerEventSource& source);

}  // namespace mainspring
