// Which events somebody wants, and how they are told outside of the broker.
#pragma once

#include "broker/events.h"

namespace mainspring {

// Does it fit? Without a look at who may see it.
bool passes(const EventFilter& filter, const Event& event);
EngineEvent told(const Event& event);

}  // namespace mainspring
