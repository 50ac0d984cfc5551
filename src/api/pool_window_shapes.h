// The windows of worker pools, which GET /v1/upcoming shows beside ticks and due jobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mainspring/schedule.h"

namespace mainspring {

// A time in which the calendar of a worker pool sets another minimum or maximum of workers.
struct PoolWindow {
  std::string pool;
  std::optional<std::int64_t> min{}, max{};
  WallTime from, to;
};
inline constexpr std::size_t kMaxUpcomingWindows = 1000;

struct UpcomingAnswer : Upcoming {
  std::vector<PoolWindow> windows;  // open in [from, to), by their start
};

void encode_upcoming(const UpcomingAnswer& upcoming, std::string& out);
Result<UpcomingAnswer> decode_upcoming_answer(std::string_view body);

}  // namespace mainspring
