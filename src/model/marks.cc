// Rules of marks and saved views.
#include "mainspring/marks.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring {
namespace {

constexpr std::size_t kMarkShownBytes = 64;

bool has_controls(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Error bad_mark(std::string_view field, std::string_view value, std::string_view rule) {
  return {.code = ErrorCode::invalid_argument,
          .message = fmt::format("{} \"{}\": {}", field, value.substr(0, kMarkShownBytes), rule),
          .field = std::string(field)};
}

}  // namespace

std::string_view to_string(MarkSource source) {
  return source == MarkSource::manual ? "manual" : "worker";
}

std::optional<MarkSource> parse_mark_source(std::string_view text) {
  for (const MarkSource source : {MarkSource::manual, MarkSource::worker}) {
    if (to_string(source) == text) return source;
  }
  return std::nullopt;
}

Result<void> check_mark_text(std::string_view text) {
  if (!text.empty() && text.size() <= kMaxMarkBytes && !has_controls(text)) return {};
  return bad_mark("text", text,
                  fmt::format("must be 1 to {} bytes without control characters", kMaxMarkBytes));
}

Result<void> check_mark_time(WallTime at, WallTime now) {
  if (at >= WallTime() && at <= now + kMaxMarkAhead) return {};
  return bad_mark("at", format_wall_time(at),
                  fmt::format("must be from 1970 to one day after the server's time, {}",
                              format_wall_time(now)));
}

Result<void> check_mark_filter(const MarkFilter& filter) {
  if (filter.limit < 1 || filter.limit > kMaxMarkPage) {
    return bad_mark("limit", std::to_string(filter.limit),
                    fmt::format("must be 1 to {}", kMaxMarkPage));
  }
  if (filter.from && filter.to && *filter.from >= *filter.to) {
    return bad_mark("from", format_wall_time(*filter.from),
                    fmt::format("must be before to, {}", format_wall_time(*filter.to)));
  }
  return {};
}

// Refuses names that URLs cannot carry: clients and proxies remove "." and "..", or split at a
// slash.
Result<void> check_view_name(std::string_view name) {
  const bool ok = !name.empty() && name.size() <= kMaxViewNameBytes && !has_controls(name) &&
                  name.find_first_of("/\\") == std::string_view::npos && name.front() != ' ' &&
                  name.back() != ' ' && name != "." && name != "..";
  if (ok) return {};
  return bad_mark("name", name,
                  fmt::format("must be 1 to {} bytes without control characters, slashes, "
                              "backslashes and outer blanks, and not . or ..",
                              kMaxViewNameBytes));
}

Result<void> validate(const SavedView& view) {
  MS_TRY(check_view_name(view.name));
  const bool page = !view.page.empty() && view.page.size() <= kMaxViewPageBytes &&
                    std::all_of(view.page.begin(), view.page.end(),
                                [](char c) {
                                  return c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '\\';
                                }) &&
                    view.page.front() != '/' && view.page.find(':') == std::string::npos;
  if (!page) {
    return bad_mark("page", view.page,
                    fmt::format("must be a path below /ui/, such as jobs, of 1 to {} printable "
                                "ASCII characters without ?, #, : and \\",
                                kMaxViewPageBytes));
  }
  if (view.query.size() > kMaxViewQueryBytes || has_controls(view.query)) {
    return bad_mark(
        "query", view.query,
        fmt::format("must be at most {} bytes without control characters", kMaxViewQueryBytes));
  }
  return {};
}

}  // namespace mainspring
