// Names of events, and the rules of event filters.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mainspring/event.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, kEventTypeCount> kNames = {"enqueued",
                                                                  "started",
                                                                  "completed",
                                                                  "retrying",
                                                                  "snoozed",
                                                                  "deferred",
                                                                  "dead",
                                                                  "cancelled",
                                                                  "progress",
                                                                  "queue_paused",
                                                                  "queue_resumed",
                                                                  "quarantined",
                                                                  "quarantine_left",
                                                                  "breaker_opened",
                                                                  "breaker_half_open",
                                                                  "breaker_closed",
                                                                  "changed",
                                                                  "gap"};

Result<void> check_filter_count(std::string_view field, std::size_t count) {
  if (count <= kMaxEventFilterValues) return {};
  return invalid(std::string(field),
                 fmt::format("{}: must be at most {} values", field, kMaxEventFilterValues));
}

Result<void> check_names(std::string_view field, const std::vector<std::string>& names) {
  MS_TRY(check_filter_count(field, names.size()));
  for (const std::string& name : names) MS_TRY(check_name(field, name));
  return {};
}

}  // namespace

std::string_view to_string(EventType type) {
  return kNames[static_cast<std::size_t>(type)];
}

std::optional<EventType> parse_event_type(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<EventType>(found - kNames.begin());
}

Result<void> validate(const EventFilter& filter) {
  MS_TRY(check_names("queue", filter.queues));
  MS_TRY(check_names("kind", filter.kinds));
  MS_TRY(check_filter_count("tag", filter.tags.size()));
  MS_TRY(check_filter_count("type", filter.types.size()));
  MS_TRY(check_filter_count("job", filter.jobs.size()));
  for (const JobId id : filter.jobs) {
    if (id < 1) return invalid("job", fmt::format("job {}: must be a whole number from 1", id));
  }
  return {};
}

}  // namespace mainspring
