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
  bool core = false;  // true: its failure fails the whole server; false: it only warns
  PartState state = PartState::ok;
  std::string message;            // a sentence, "" = none
  std::optional<Duration> age{};  // of the information in the message
};

}  // namespace mainspring
