// Calendar windows: times in which a pool has another minimum or maximum.
//
//   min=4; cron=0 8 * * 1-5; for=10h; time_zone=Europe/Berlin
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mainspring/schedule.h"
#include "scale/rule.h"

namespace mainspring {

struct ScaleWindow {
  std::optional<int> min{}, max{};  // at least one
  Schedule starts{};                // cron and time_zone
  Duration length{0};               // 1 m to 366 days
};
inline constexpr std::size_t kMaxScaleWindows = 32;

struct OpenTime {
  WallTime from, to;
};

// Errors: invalid_argument, with the field "window".
Result<ScaleWindow> parse_scale_window(std::string_view text);
// The first `limit` times at which the window is open within [from, to), in order. Times that meet
// are one. After 1,000 starts the last time lasts until `to`.
std::vector<OpenTime> open_times(const ScaleWindow& window, WallTime from, WallTime to,
                                 std::size_t limit);
// The options with the windows that are open at a time from `now` to `lead` later: the largest
// minimum counts, and the smallest maximum. A minimum above it is cut to the maximum.
ScaleOptions with_windows(ScaleOptions options, std::span<const ScaleWindow> windows, WallTime now);

}  // namespace mainspring
