// Payloads are what things carry: args, results, checkpoints, headers, texts of errors and
// progress. Whoever may see a thing does not see them for that.
#pragma once

#include <cstdint>

namespace mainspring {

enum class Payload : std::uint8_t {
  shown,
  masked,  // null in their place, and "masked": true beside them
};

}  // namespace mainspring
