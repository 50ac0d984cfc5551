// The worker pools that a server's settings declare, and the windows of their calendars.
//
//   [mail]
//   queues = ["mail", "tenant/*"]
//   slots = 4
//   max = 20
//
//   [[mail.window]]
//   min = 4
//   cron = "0 8 * * 1-5"
//   for = "10h"
//   time_zone = "Europe/Berlin"
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/pool_window_shapes.h"
#include "scale/scaler.h"
#include "store/mark_operations.h"

namespace mainspring {

using ScalePools = std::map<std::string, ScaleRequest, std::less<>>;  // by name

inline constexpr std::size_t kMaxDeclaredWindows = 100;  // of all pools

// Parses TOML. Errors: invalid_argument, with the file and the pool.
Result<ScalePools> parse_scale_pools(std::string_view file, std::string_view text);

// The windows of a pool that are open in [from, to), by their start.
std::vector<PoolWindow> pool_windows(const ScaleRequest& pool, WallTime from, WallTime to);
// The mark of the first window that starts after this mark's place: by time, then by text. The text
// is another one for each start.
std::optional<AddMark> next_window_mark(const ScalePools& pools, WallTime after,
                                        std::string_view text);

}  // namespace mainspring
