// How far somebody has come in the events of each process that makes them: what stands in the id of
// an event, so that a stream goes on where it was cut off, at this node or another one.
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

  // PROCESS-NUMBER, more of them behind commas. nullopt: it is none.
  static std::optional<EventMarks> parse(std::string_view text);
  std::string text() const;

  bool has(std::string_view process) const;
  // 0 = nothing of it.
  std::uint64_t of(std::string_view process) const;
  // True if the process is a new one.
  bool set(std::string_view process, std::uint64_t number);
  const std::vector<Mark>& all() const { return all_; }
  friend bool operator==(const EventMarks&, const EventMarks&) = default;

 private:
  std::vector<Mark> all_;  // few; in the order in which they came
};

}  // namespace mainspring
