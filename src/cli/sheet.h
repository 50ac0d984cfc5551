// Sheet: prints one object, a line per name, for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/io.h"
#include "mainspring/time.h"

namespace mainspring::cli {

class Sheet {
 public:
  explicit Sheet(const Io& io) : io_(io) {}
  // Skips empty values. Indents further lines of a value.
  void add(std::string_view name, std::string_view value);
  // "2026-01-31T09:00:00Z  (in 5m)", by shown_time(); skips nullopt.
  void add(std::string_view name, const std::optional<WallTime>& time, WallTime now);
  const std::string& text() const { return lines_; }

 private:
  const Io& io_;
  std::string lines_;
};

// "now", "in 5m", "5m ago".
std::string relative_to(WallTime time, WallTime now);

}  // namespace mainspring::cli
