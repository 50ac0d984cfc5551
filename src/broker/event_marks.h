// The last event that a client has seen of each process. An event's id contains it, so that a
// stream continues after a disconnect, at this node or another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mainspring {

class EventMarks {
 public:
  using Mark = std::pair<std::string, std::uint64_t>;  // process; the number of its last event
  static constexpr std::size_t kMaxMarks = 128;
  static constexpr std::size_t kMaxTextBytes = 6 << 10;

  // Format: PROCESS-NUMBER, several separated by commas. nullopt: invalid.
  static std::optional<EventMarks> parse(std::string_view text);
  std::string text() const;

  bool has(std::string_view process) const;
  // 0 = no event of that process.
  std::uint64_t of(std::string_view process) const;
  // Returns true if the process is a new one.
  bool set(std::string_view process, std::uint64_t number);
  const std::vector<Mark>& all() const { return all_; }
  friend bool operator==(const EventMarks&, const EventMarks&) = default;

 private:
  std::vector<Mark> all_;  // few; oldest first
};

}  // namespace mainspring
