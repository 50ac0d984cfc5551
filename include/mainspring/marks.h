// Marks on charts, for example deploys, and saved views of the dashboard. Everyone shares them.
//
//   engine.mark("v1.4");
//   for (const Mark& mark : engine.marks({.from = yesterday})->marks) print(mark.at, mark.text);
//
// Guide: docs/guides/dashboard.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

enum class MarkSource : std::uint8_t {
  manual,  // by a request
  worker,  // by the first claim of a new worker version, or a window of a pool's calendar
};
std::string_view to_string(MarkSource source);
std::optional<MarkSource> parse_mark_source(std::string_view text);

struct Mark {
  std::int64_t id = 0;  // grows
  WallTime at;
  std::string text;  // 1 to kMaxMarkBytes bytes of UTF-8 without control characters
  std::string by;    // a token's name, "local", "worker HOST", or "calendar"
  MarkSource source = MarkSource::manual;
  friend bool operator==(const Mark&, const Mark&) = default;
};

using MarkPlace = std::pair<WallTime, std::int64_t>;  // `at` and `id` of a mark
struct MarkFilter {
  std::optional<WallTime> from{}, to{};  // from <= at < to
  int limit = 100;                       // 1 to kMaxMarkPage
  std::optional<MarkPlace> before{};     // the `next` of the page before
};
struct MarkPage {
  std::vector<Mark> marks;          // latest first
  std::optional<MarkPlace> next{};  // nullopt = no more
};

struct SavedView {
  std::string name;   // 1 to kMaxViewNameBytes bytes, as check_view_name
  std::string page;   // of the dashboard: "jobs", "queues/mails"
  std::string query;  // of its URL, without "?"
  std::string by;     // name of the last writer
  WallTime updated_at{};
  friend bool operator==(const SavedView&, const SavedView&) = default;
};

inline constexpr std::int64_t kMaxMarks = 5'000;  // a new one then replaces the earliest
inline constexpr std::size_t kMaxMarkBytes = 200;
inline constexpr int kMaxMarkPage = 1000;
inline constexpr Duration kMaxMarkAhead = std::chrono::hours(24);  // of the server's clock
inline constexpr std::int64_t kMaxViews = 1000;
inline constexpr std::size_t kMaxViewNameBytes = 100;
inline constexpr std::size_t kMaxViewPageBytes = 200;
inline constexpr std::size_t kMaxViewQueryBytes = 2000;

// Errors of these: invalid_argument, with the field.
Result<void> check_mark_text(std::string_view text);
Result<void> check_mark_time(WallTime at, WallTime now);
Result<void> check_mark_filter(const MarkFilter& filter);
Result<void> check_view_name(std::string_view name);
// Checks name, page and query.
Result<void> validate(const SavedView& view);

}  // namespace mainspring
