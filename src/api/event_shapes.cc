// Events out of JSON.
#include "api/event_shapes.h"

#include <climits>

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

struct Told {
  EngineEvent event;
  bool known = true;
};

constexpr JsonField<Progress> kEventProgress[] = {
    {"value", [](JsonReader& in, Progress& p) { return in.number(p.value, 0, 1); }},
    {"text", [](JsonReader& in, Progress& p) { return in.null() || in.string(p.text); }},
};

bool read_type(JsonReader& in, Told& told) {
  std::string text;
  if (!in.string(text)) return false;
  const auto type = parse_event_type(text);
  told.known = type.has_value();
  if (type) told.event.type = *type;
  return true;
}

template <auto Member>
bool as_text(JsonReader& in, Told& told) {
  return in.null() || in.string(told.event.*Member);
}

constexpr JsonField<Told> kJobEvent[] = {
    {"type", &read_type},
    {"at", [](JsonReader& in, Told& t) { return in.wall_time(t.event.at); }},
    {"job",
     [](JsonReader& in, Told& t) { return in.integer(t.event.job, std::int64_t{1}, INT64_MAX); }},
    {"queue", &as_text<&EngineEvent::queue>},
    {"kind", &as_text<&EngineEvent::kind>},
    {"tags", [](JsonReader& in, Told& t) { return read_strings(in, t.event.tags, kMaxTags); }},
    {"attempt", [](JsonReader& in, Told& t) { return in.integer(t.event.attempt, 1, INT_MAX); }},
    {"reason", &as_text<&EngineEvent::reason>},
    {"progress",
     [](JsonReader& in, Told& t) { return in.object(kEventProgress, t.event.progress.emplace()); }},
    {"breaker", &as_text<&EngineEvent::breaker>},
    {"until", [](JsonReader& in, Told& t) { return in.wall_time(t.event.until.emplace()); }},
};

}  // namespace

Result<std::optional<EngineEvent>> decode_event(std::string_view body) {
  MS_TRY_ASSIGN(Told told, decode_response(body, kJobEvent));
  if (!told.known) return std::optional<EngineEvent>();
  return std::optional(std::move(told.event));
}

}  // namespace mainspring
