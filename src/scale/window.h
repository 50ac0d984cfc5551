// Calendar windows: times in which a pool has another minimum or maximum.
//
//   min=4; cron=0 8 * * 1-5; for=10h; time_zone=Europe/Berlin
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "mainspring/schedule.h"
#include "scale/rule.h"

namespace mainspring {

struct ScaleWindow {
  std::optional<int> min{}, max{};  // at least one
  Schedule starts{};                // cron and time_zone
  Duration length{0};               // 1 m to 366 days
};
inline constexpr std::size_t kMaxScaleWindows = 32;

// Errors: invalid_argument, with the field "window".
Result<ScaleWindow> parse_scale_window(std::string_view text);
// The options with the windows that are open at a time from `now` to `lead` later: the largest
// minimum counts, and the smallest maximum. A minimum above it is cut to the maximum.
ScaleOptions with_windows(ScaleOptions options, std::span<const ScaleWindow> windows, WallTime now);

}  // namespace mainspring
