// Calendar windows of pools.
#include "scale/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/schedule.h"

namespace mainspring {
namespace {

constexpr Duration kShortestWindow = std::chrono::minutes(1);
constexpr Duration kLongestWindow = std::chrono::hours(24 * 366);
constexpr int kMostStarts = 1000, kStartsAtOnce = 10;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<void> read_part(ScaleWindow& window, std::string_view name, std::string_view value) {
  if (name == "min" || name == "max") {
    int count = -1;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), count);
    const bool whole = problem == std::errc() && end == value.data() + value.size();
    if (!whole || count < 0 || count > kMaxScaleWorkers) {
      return invalid("window", fmt::format("window: {} \"{}\": must be 0 to {}", name, value,
                                           kMaxScaleWorkers));
    }
    (name == "min" ? window.min : window.max) = count;
  } else if (name == "cron") {
    window.starts.cron = value;
  } else if (name == "time_zone") {
    window.starts.time_zone = value;
  } else if (name == "for") {
    const auto length = parse_duration(value);
    if (!length || *length < kShortestWindow || *length > kLongestWindow) {
      return invalid("window", fmt::format("window: for \"{}\": must be 1m to 366d", value));
    }
    window.length = *length;
  } else {
    return invalid("window", fmt::format("window: \"{}\": must be one of min, max, cron, for, "
                                         "time_zone",
                                         name));
  }
  return {};
}

// The first start after this is the earliest that is still open.
WallTime before_open(const ScaleWindow& window, WallTime now) {
  return std::max(now, WallTime() + window.length) - window.length;
}

bool is_open(const ScaleWindow& window, WallTime now, Duration lead) {
  const auto starts = preview(window.starts, before_open(window, now), 1);
  return !starts.empty() && starts.front().fires_at <= now + lead;
}

}  // namespace

Result<ScaleWindow> parse_scale_window(std::string_view text) {
  ScaleWindow window;
  for (std::string_view rest = text; !trimmed(rest).empty();) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    MS_TRY(read_part(window, trimmed(part.substr(0, equals)), trimmed(value)));
  }
  if (window.starts.cron.empty() || window.length == Duration(0) || (!window.min && !window.max)) {
    return invalid("window",
                   "window: must have cron, for, and min or max, such as \"min=4; "
                   "cron=0 8 * * 1-5; for=10h; time_zone=Europe/Berlin\"");
  }
  window.starts.name = "window";
  window.starts.job = {.queue = "window", .kind = "window"};
  if (auto valid = validate(window.starts); !valid) {
    return invalid("window", "window: " + valid.error().message);
  }
  return window;
}

std::vector<OpenTime> open_times(const ScaleWindow& window, WallTime from, WallTime to,
                                 std::size_t limit) {
  std::vector<OpenTime> out;
  WallTime after = before_open(window, from);
  for (int read = 0; read < kMostStarts; read += kStartsAtOnce) {
    const auto starts = preview(window.starts, after, kStartsAtOnce);
    if (starts.empty()) return out;
    for (const PreviewTick& start : starts) {
      if (!out.empty() && start.fires_at <= out.back().to) {
        out.back().to = start.fires_at + window.length;
        continue;
      }
      if (start.fires_at >= to || out.size() == limit) return out;
      out.push_back({start.fires_at, start.fires_at + window.length});
    }
    after = starts.back().nominal;
  }
  out.back().to = std::max(out.back().to, to);  // its starts are too many to follow
  return out;
}

ScaleOptions with_windows(ScaleOptions options, std::span<const ScaleWindow> windows,
                          WallTime now) {
  for (const ScaleWindow& window : windows) {
    if (!is_open(window, now, options.lead)) continue;
    if (window.min) options.min = std::max(options.min, *window.min);
    if (window.max) options.max = std::max(1, std::min(options.max, *window.max));
  }
  options.min = std::min(options.min, options.max);
  return options;
}

}  // namespace mainspring
