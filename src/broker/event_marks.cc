// Ids of events to and from text.
#include "broker/event_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mainspring {

std::optional<EventMarks> EventMarks::parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) return std::nullopt;
  EventMarks out;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view one = text.substr(0, comma);
    if (more) text.remove_prefix(comma + 1);
    const std::size_t dash = one.rfind('-');
    if (dash == 0 || dash == std::string_view::npos) return std::nullopt;
    const std::string_view number = one.substr(dash + 1);
    std::uint64_t value = 0;
    const auto [end, problem] =
        std::from_chars(number.data(), number.data() + number.size(), value);
    if (problem != std::errc() || end != number.data() + number.size()) return std::nullopt;
    if (!out.set(one.substr(0, dash), value) || out.all_.size() > kMaxMarks) return std::nullopt;
  }
  return out;
}

std::string EventMarks::text() const {
  std::string out;
  for (const auto& [process, number] : all_) {
    if (!out.empty()) out += ',';
    out += fmt::format("{}-{}", process, number);
  }
  return out;
}

bool EventMarks::has(std::string_view process) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Mark& mark) { return mark.first == process; });
}

std::uint64_t EventMarks::of(std::string_view process) const {
  for (const auto& [name, number] : all_) {
    if (name == process) return number;
  }
  return 0;
}

bool EventMarks::set(std::string_view process, std::uint64_t number) {
  for (auto& [name, last] : all_) {
    if (name != process) continue;
    last = number;
    return false;
  }
  all_.emplace_back(process, number);
  return true;
}

}  // namespace mainspring
