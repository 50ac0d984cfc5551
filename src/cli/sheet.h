// Sheet: what is known of one thing, a line per name, for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mainspring/time.h"

namespace mainspring::cli {

class Sheet {
 public:
  // Empty values are left out. The further lines of a value are indented.
  void add(std::string_view name, std::string_view value);
  // "2026-01-31T09:00:00Z  (in 5m)"; nullopt is left out.
  void add(std::string_view name, const std::optional<WallTime>& time, WallTime now);
  const std::string& text() const { return lines_; }

 private:
  std::string lines_;
};

// "now", "in 5m", "5m ago".
std::string relative_to(WallTime time, WallTime now);

}  // namespace mainspring::cli
