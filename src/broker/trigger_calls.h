// Input checks for triggers: for calls in this process, for the HTTP server, and for folder
// watchers.
#pragma once

#include <span>

#include "api/trigger_shapes.h"

namespace mainspring {

class Broker;

inline constexpr std::size_t kMinHookTokenBytes = 16, kMaxHookTokenBytes = 256;

// Checks that the definition is complete and that its args refer to values of its source. Errors:
// invalid_argument.
Result<void> check_trigger(const Trigger& trigger);
// Checks that the folder, if any, is below one of the roots. Errors: invalid_argument.
Result<void> check_watch_roots(const Trigger& trigger, std::span<const std::string> roots);
// The stored form of a secret. Errors: invalid_argument. (Callers check signature keys themselves.)
Result<std::string> kept_secret(const HookSource& http, std::string_view secret);

// The args of the job of an event. Errors: invalid_argument (an unresolved reference), too_large.
Result<std::string> trigger_args(const Trigger& trigger, const FireTriggerRequest& event);
// The value of the reference in the event, as text; "" = none. A long value becomes its digest.
std::string event_id_of(std::string_view reference, const FireTriggerRequest& event);

// An event of an authenticated caller. `fence`: of the leader. Errors: those of fire_trigger().
struct TriggerEventSource {
  std::optional<WallTime> made_at{};
  Fence fence{};
  Within within{};
};
Result<TriggerFired> fire_event(Broker& broker, const std::string& name,
                                const FireTriggerRequest& event, const TriggerEventSource& source);

}  // namespace mainspring
