// ShownHealth: the answer of GET /healthz?verbose, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"

namespace mainspring::cli {

struct ShownPart {
  std::string name, status, message;
  bool core = false;
};
struct ShownHealth {
  std::string status;
  std::vector<ShownPart> parts;
};
Result<ShownHealth> decode_health(std::string_view body);

}  // namespace mainspring::cli
