// The JSON of an export request, and of its answer.
#include "tracing/otlp.h"

#include <fmt/format.h>

#include <charconv>

#include "api/json.h"

namespace mainspring {
namespace {

// The schema whose attribute names are used.
constexpr std::string_view kSchema = "https://opentelemetry.io/schemas/1.38.0";

void write_value(JsonWriter& w, const SpanValue& value) {
  w.begin_object();
  if (const auto* text = std::get_if<std::string>(&value)) {
    w.key("stringValue").string(*text);
  } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
    w.key("intValue").string(fmt::to_string(*number));
  } else {
    w.key("arrayValue").begin_object().key("values").begin_array();
    for (const std::string& one : std::get<std::vector<std::string>>(value)) {
      w.begin_object().key("stringValue").string(one).end_object();
    }
    w.end_array().end_object();
  }
  w.end_object();
}

void write_attribute(JsonWriter& w, std::string_view name, const SpanValue& value) {
  w.begin_object().key("key").string(name).key("value");
  write_value(w, value);
  w.end_object();
}

std::string nanoseconds(WallTime at) {
  return at.us() <= 0 ? "0" : fmt::format("{}000", at.us());
}

void write_span(JsonWriter& w, const Span& span) {
  w.begin_object();
  w.key("traceId").string(hex_of(span.context.trace));
  w.key("spanId").string(hex_of(span.context.span));
  if (span.parent) w.key("parentSpanId").string(hex_of(*span.parent));
  if (!span.state.empty()) w.key("traceState").string(span.state);
  w.key("name").string(span.name);
  w.key("kind").number(static_cast<int>(span.kind));
  w.key("startTimeUnixNano").string(nanoseconds(span.start));
  w.key("endTimeUnixNano").string(nanoseconds(span.end));
  w.key("attributes").begin_array();
  for (const auto& [name, value] : span.attributes) write_attribute(w, name, value);
  w.end_array();
  constexpr int kError = 2;
  w.key("status").begin_object();
  if (span.failed) w.key("code").number(kError);
  w.end_object().end_object();
}

}  // namespace

std::size_t Span::bytes() const {
  std::size_t out = sizeof(Span) + name.size() + state.size();
  for (const auto& [key, value] : attributes) {
    out += sizeof key + sizeof value;
    if (const auto* text = std::get_if<std::string>(&value)) out += text->size();
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) out += sizeof text + text.size();
    }
  }
  return out;
}

std::string otlp_json(std::span<const Span> spans, const ResourceAttributes& resource) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("resourceSpans").begin_array().begin_object();
  w.key("resource").begin_object().key("attributes").begin_array();
  for (const auto& [name, value] : resource) write_attribute(w, name, value);
  w.end_array().end_object();
  w.key("scopeSpans").begin_array().begin_object();
  w.key("scope").begin_object().key("name").string("mainspring").end_object();
  w.key("spans").begin_array();
  for (const Span& span : spans) write_span(w, span);
  w.end_array().key("schemaUrl").string(kSchema);
  w.end_object().end_array();
  w.key("schemaUrl").string(kSchema);
  w.end_object().end_array().end_object();
  return out;
}

std::int64_t rejected_spans(std::string_view body) {
  std::int64_t rejected = 0;
  JsonReader in(body, JsonReader::Unknown::skip);
  (void)in.members([&](std::string_view name) {
    std::string value;
    if (name != "partialSuccess") return in.raw(value, JsonReader::Null::take);
    return in.members([&](std::string_view inner) {
      if (!in.raw(value, JsonReader::Null::take)) return false;
      if (inner != "rejectedSpans") return true;
      std::string_view digits = value;  // a number, or a text of digits
      if (digits.starts_with('"')) digits = digits.substr(1, digits.size() - 2);
      std::from_chars(digits.data(), digits.data() + digits.size(), rejected);
      return true;
    });
  });
  return rejected < 0 ? 0 : rejected;
}

}  // namespace mainspring
