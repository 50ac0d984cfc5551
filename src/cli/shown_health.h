// ShownHealth: the answer of GET /healthz?verbose, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"

namespace mainspring::cli {

struct ShownPart {
  std::string name, status, message;
  bool core = false;
};
struct ShownLimits {
  std::int64_t open_files = 0, max_connections = 0;  // 0 files = unlimited
};
struct ShownHealth {
  std::string status;
  std::vector<ShownPart> parts;  // empty: the caller may not read them
  std::optional<ShownLimits> limits{};
};
Result<ShownHealth> decode_health(std::string_view body);

}  // namespace mainspring::cli
