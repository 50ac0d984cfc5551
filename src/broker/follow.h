// Filters events, and converts them for callers outside the broker.
#pragma once

#include "broker/events.h"

namespace mainspring {

// Returns whether the event matches. Does not check the caller's permissions.
bool passes(const EventFilter& filter, const Event& event);
EngineEvent to_engine_event(const Event& event);

}  // namespace mainspring
