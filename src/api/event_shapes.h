// Events as JSON, as the stream of a server has them. See shapes.h for what decode_… promises.
#pragma once

#include <optional>
#include <string_view>

#include "mainspring/event.h"

namespace mainspring {

// {"id", "type", "at", "job"?, "queue"?, "kind"?, "tags"?, "attempt"?, "reason"?, "progress"?:
// {"value", "text"}, "breaker"?, "until"?}. nullopt: of a type that this version does not know.
Result<std::optional<EngineEvent>> decode_event(std::string_view body);

}  // namespace mainspring
