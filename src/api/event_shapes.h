// Events as JSON, as in a server's event stream. See shapes.h for the contract of decode_….
#pragma once

#include <optional>
#include <string_view>

#include "mainspring/event.h"

namespace mainspring {

// {"id", "type", "at", "job"?, "queue"?, "kind"?, "tags"?, "attempt"?, "reason"?, "progress"?:
// {"value", "text"}, "breaker"?, "until"?}. nullopt: of a type that this version does not know.
Result<std::optional<EngineEvent>> decode_event(std::string_view body);

}  // namespace mainspring
