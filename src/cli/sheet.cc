// Lines of names and values.
#include "cli/sheet.h"

#include <fmt/format.h>

#include "cli/io.h"
#include "cli/support.h"

namespace mainspring::cli {

void Sheet::add(std::string_view name, std::string_view value) {
  if (!value.empty()) lines_ += fmt::format("{:<15} {}\n", name, printable(value));
}

void Sheet::add(std::string_view name, const std::optional<WallTime>& time, WallTime now) {
  if (!time) return;
  add(name, fmt::format("{}  ({})", format_wall_time(*time), relative_to(*time, now)));
}

std::string relative_to(WallTime time, WallTime now) {
  const std::string age = format_age(time > now ? time - now : now - time);
  if (age == "now") return age;
  return time > now ? "in " + age : age + " ago";
}

}  // namespace mainspring::cli
