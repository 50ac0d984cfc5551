// Lines of names and values.
#include "cli/sheet.h"

#include <fmt/format.h>

#include "cli/io.h"
#include "cli/support.h"

namespace mainspring::cli {
namespace {

constexpr std::string_view kIndent = "                ";  // of the lines after the first of a value

}  // namespace

void Sheet::add(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  lines_ += fmt::format("{:<15} ", name);
  for (bool first = true; first || !value.empty(); first = false) {
    const std::size_t end = value.find('\n');
    lines_ += fmt::format("{}{}\n", first ? "" : kIndent, printable(value.substr(0, end)));
    value.remove_prefix(end == std::string_view::npos ? value.size() : end + 1);
  }
}

void Sheet::add(std::string_view name, const std::optional<WallTime>& time, WallTime now) {
  if (!time) return;
  add(name, fmt::format("{}  ({})", shown_time(io_, *time), relative_to(*time, now)));
}

std::string relative_to(WallTime time, WallTime now) {
  const bool ahead = time > now;
  const std::string age = ahead ? format_left(time - now) : format_age(now - time);
  if (age == "now") return age;
  return ahead ? "in " + age : age + " ago";
}

}  // namespace mainspring::cli
