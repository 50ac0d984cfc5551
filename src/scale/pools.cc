// Worker pools of a server's settings.
#include "scale/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/toml.h"

namespace mainspring {
namespace {

constexpr Duration kMarksAhead = std::chrono::hours(24 * 366);

using Parameters = std::vector<std::pair<std::string, std::string>>;

Result<std::string> text_of(std::string_view key, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::to_string(number->get());
  return invalid(std::string(key), fmt::format("{}: must be a text or a whole number", key));
}

Result<std::string> queues_of(const toml::node& node) {
  std::string out;
  const auto* list = node.as_array();
  if (list == nullptr) return text_of("queues", node);
  for (const toml::node& one : *list) {
    MS_TRY_ASSIGN(const std::string queue, text_of("queues", one));
    out += (out.empty() ? "" : ",") + queue;
  }
  return out;
}

Result<void> add_windows(const toml::node& node, Parameters& out) {
  const auto* list = node.as_array();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* window = list->get(i)->as_table();
    if (window == nullptr) break;
    std::string text;
    for (const auto& [key, value] : *window) {
      MS_TRY_ASSIGN(const std::string one, text_of(key.str(), value));
      text += fmt::format("{}={};", key.str(), one);
    }
    out.emplace_back("window", std::move(text));
    if (i + 1 == list->size()) return {};
  }
  return invalid("window", "window: must be tables, such as [[mail.window]]");
}

Result<ScaleRequest> read_pool(const std::string& name, const toml::node& node) {
  constexpr std::string_view kKeys[] = {"slots", "target", "min", "max", "lead", "hold"};
  const auto* table = node.as_table();
  if (table == nullptr) return invalid(name, "must be a table, such as [mail]");
  Parameters parameters{{"pool", name}};
  for (const auto& [key, value] : *table) {
    if (key.str() == "window") {
      MS_TRY(add_windows(value, parameters));
      continue;
    }
    const bool queues = key.str() == "queues";
    if (!queues && std::find(std::begin(kKeys), std::end(kKeys), key.str()) == std::end(kKeys)) {
      return invalid(std::string(key.str()),
                     fmt::format("\"{}\": must be one of queues, slots, target, min, max, lead, "
                                 "hold, window",
                                 key.str()));
    }
    MS_TRY_ASSIGN(std::string text, queues ? queues_of(value) : text_of(key.str(), value));
    parameters.emplace_back(key.str(), std::move(text));
  }
  ScaleRequest pool;
  MS_TRY(pool.read(parameters));
  return pool;
}

std::string mark_text(const PoolWindow& window) {
  const auto part = [](const char* name, const std::optional<std::int64_t>& value) {
    return value ? fmt::format(" {} {}", name, *value) : std::string();
  };
  return fmt::format("{}:{}{} until {}", window.pool, part("min", window.min),
                     part("max", window.max), format_wall_time(window.to));
}

}  // namespace

Result<ScalePools> parse_scale_pools(std::string_view file, std::string_view text) {
  MS_TRY_ASSIGN(const toml::table table, parse_toml(text, file));
  ScalePools out;
  std::size_t windows = 0;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    auto pool = read_pool(name, node);
    if (!pool) {
      return invalid(name, fmt::format("{}: pool {}: {}", file, name, pool.error().message));
    }
    windows += pool->windows.size();
    out.emplace(name, std::move(*pool));
  }
  if (out.size() > kMaxScalePools || windows > kMaxDeclaredWindows) {
    return invalid("scale_pools",
                   fmt::format("{}: {} pools with {} windows: must be at most {} and {}", file,
                               out.size(), windows, kMaxScalePools, kMaxDeclaredWindows));
  }
  return out;
}

std::vector<PoolWindow> pool_windows(const ScaleRequest& pool, WallTime from, WallTime to) {
  std::vector<PoolWindow> out;
  for (const ScaleWindow& window : pool.windows) {
    for (const OpenTime& time : open_times(window, from, to, kMaxUpcomingWindows)) {
      out.push_back({.pool = pool.pool,
                     .min = window.min,
                     .max = window.max,
                     .from = time.from,
                     .to = time.to});
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  return out;
}

std::optional<AddMark> next_window_mark(const ScalePools& pools, WallTime after,
                                        std::string_view text) {
  std::optional<AddMark> first;
  for (const auto& [name, pool] : pools) {
    for (const ScaleWindow& window : pool.windows) {
      // One that is open at `after`, and the next one.
      for (const OpenTime& time : open_times(window, after, after + kMarksAhead, 2)) {
        AddMark mark{.text = mark_text({.pool = name,
                                        .min = window.min,
                                        .max = window.max,
                                        .from = time.from,
                                        .to = time.to}),
                     .at = time.from,
                     .by = "calendar",
                     .source = MarkSource::worker};
        if (std::tie(*mark.at, mark.text) <= std::tuple(after, std::string(text))) continue;
        if (!first || std::tie(*mark.at, mark.text) < std::tie(*first->at, first->text)) {
          first = std::move(mark);
        }
      }
    }
  }
  return first;
}

}  // namespace mainspring
