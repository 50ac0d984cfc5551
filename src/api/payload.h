// Payloads: args, results, checkpoints, headers, texts of errors and progress. Permission to see an
// object does not include its payloads.
#pragma once

#include <cstdint>

namespace mainspring {

enum class Payload : std::uint8_t {
  shown,
  masked,  // null instead, with "masked": true next to them
};

}  // namespace mainspring
