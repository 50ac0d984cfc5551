// Sealed ids: event ids for callers that may not read all queues.
//
// An event's id has numbers that count the events of all queues. Sealed with the store's key, it
// reveals nothing, and every server of the store can still resume a stream from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "env/random.h"

namespace mainspring::http {

// Each call gives another text. Its length reveals that of `text` only roughly.
std::string seal_id(std::string_view text, const Secret& key, Random& random);
// nullopt: not a sealed id, or not sealed with this key.
std::optional<std::string> open_id(std::string_view sealed, const Secret& key);

}  // namespace mainspring::http
