// Events out of JSON.
#include "api/event_shapes.h"

#include <climits>

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

struct DecodedEvent {
  EngineEvent event;
  bool known = true;
};

constexpr JsonField<Progress> kEventProgress[] = {
    {"value", [](JsonReader& in, Progress& p) { return in.number(p.value, 0, 1); }},
    {"text", [](JsonReader& in, Progress& p) { return in.null() || in.string(p.text); }},
};

bool read_type(JsonReader& in, DecodedEvent& decoded) {
  std::string text;
  if (!in.string(text)) return false;
  const auto type = parse_event_type(text);
  decoded.known = type.has_value();
  if (type) decoded.event.type = *type;
  return true;
}

template <auto Member>
bool as_text(JsonReader& in, DecodedEvent& decoded) {
  return in.null() || in.string(decoded.event.*Member);
}

constexpr JsonField<DecodedEvent> kJobEvent[] = {
    {"type", &read_type},
    {"at", [](JsonReader& in, DecodedEvent& t) { return in.wall_time(t.event.at); }},
    {"job", [](JsonReader& in,
               DecodedEvent& t) { return in.integer(t.event.job, std::int64_t{1}, INT64_MAX); }},
    {"queue", &as_text<&EngineEvent::queue>},
    {"kind", &as_text<&EngineEvent::kind>},
    {"tags",
     [](JsonReader& in, DecodedEvent& t) { return read_strings(in, t.event.tags, kMaxTags); }},
    {"attempt",
     [](JsonReader& in, DecodedEvent& t) { return in.integer(t.event.attempt, 1, INT_MAX); }},
    {"reason", &as_text<&EngineEvent::reason>},
    {"progress",
     [](JsonReader& in, DecodedEvent& t) {
       return in.object(kEventProgress, t.event.progress.emplace());
     }},
    {"breaker", &as_text<&EngineEvent::breaker>},
    {"object", &as_text<&EngineEvent::object>},
    {"until",
     [](JsonReader& in, DecodedEvent& t) { return in.wall_time(t.event.until.emplace()); }},
};

}  // namespace

Result<std::optional<EngineEvent>> decode_event(std::string_view body) {
  MS_TRY_ASSIGN(DecodedEvent decoded, decode_response(body, kJobEvent));
  if (!decoded.known) return std::optional<EngineEvent>();
  return std::optional(std::move(decoded.event));
}

}  // namespace mainspring
