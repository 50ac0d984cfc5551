// One part of the health of a server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/time.h"

namespace mainspring {

enum class PartState : std::uint8_t { ok, warn, fail };
std::string_view to_string(PartState state);

struct HealthPart {
  std::string name;   // as in the reference: "store", "disk", …
  bool core = false;  // its failure makes the whole server fail; else it makes it warn
  PartState state = PartState::ok;
  std::string message;            // a sentence, "" = nothing to say
  std::optional<Duration> age{};  // of what the message says
};

}  // namespace mainspring
