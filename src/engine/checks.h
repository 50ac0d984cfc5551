// Checks that an engine's calls make before they go to the broker, as a server does for its routes.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

inline constexpr int kMaxPage = 1000;

inline Result<void> check_limit(int limit, int max = kMaxPage) {
  if (limit >= 1 && limit <= max) return {};
  return invalid("limit", fmt::format("limit \"{}\": must be 1 to {}", limit, max));
}
// A position in a list: 0 = its end.
inline Result<void> check_position(std::string_view field, std::int64_t value) {
  if (value >= 0) return {};
  return invalid(std::string(field),
                 fmt::format("{} \"{}\": must be a whole number", field, value));
}

}  // namespace mainspring
