// Finds and replaces references in JSON.
#include "workflow/references.h"

#include <fmt/format.h>

#include <charconv>

#include "api/json.h"

namespace mainspring::workflow {
namespace {

constexpr std::string_view kRef = "$ref";

// An object with a member "$ref".
struct Reference {
  std::string text;
  std::optional<std::string> fallback;  // "default"
  bool by_reference = false;
};

Error bad(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

// nullopt = the object is not a reference. Reads every member.
Result<std::optional<Reference>> read_reference(std::string_view json) {
  if (json.find("\"$ref\"") == std::string_view::npos) return std::optional<Reference>();
  JsonReader in(json, JsonReader::Unknown::skip);
  std::optional<std::string> text, fallback;
  bool others = false, is_text = true, by_reference = false;
  in.members([&](std::string_view key) {
    if (key == kRef) {
      is_text = in.peek() == JsonType::string;
      return is_text ? in.string(text.emplace()) : in.skip();
    }
    if (key == "default") return in.raw(fallback.emplace(), JsonReader::Null::take);
    if (key == "by_reference" && in.peek() == JsonType::boolean) return in.boolean(by_reference);
    others = true;
    return in.skip();
  });
  if (in.failed()) return in.error();
  if (!is_text) return bad("\"$ref\" must be a string, for example \"charge.id\"");
  if (!text) return std::optional<Reference>();
  if (others) return bad("only \"default\" and \"by_reference\" may be beside \"$ref\"");
  if (by_reference && text->find('.') != std::string::npos)
    return bad("\"by_reference\": \"$ref\" must be the name of a step, without a path");
  if (name_of(*text).empty()) return bad("\"$ref\" must begin with a name");
  return std::optional<Reference>({std::move(*text), std::move(fallback), by_reference});
}

// Looks up one part in the value: nullopt = not found.
std::optional<std::string> member(const std::string& json, std::string_view name) {
  JsonReader in(json, JsonReader::Unknown::skip);
  std::optional<std::string> out;
  if (in.peek() == JsonType::object) {
    in.members([&](std::string_view key) {
      if (key != name || out) return in.skip();
      return in.raw(out.emplace(), JsonReader::Null::take);
    });
  } else if (in.peek() == JsonType::array) {
    std::size_t index = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (problem != std::errc() || end != name.data() + name.size()) return std::nullopt;
    in.array(SIZE_MAX, [&](std::size_t i) {
      return i == index ? in.raw(out.emplace(), JsonReader::Null::take) : in.skip();
    });
  }
  return in.failed() ? std::nullopt : out;
}

struct Resolver {
  const Names& names;
  Missing missing;
  std::size_t limit;
  std::string out{};

  Result<void> put(std::string_view text) {
    if (out.size() + text.size() > limit) {
      return Error{ErrorCode::too_large, fmt::format("is over {} bytes with what its references "
                                                     "stand for",
                                                     limit)};
    }
    out += text;
    return {};
  }

  Result<void> put_reference(const Reference& reference) {
    if (reference.by_reference && names(reference.text)) {
      std::string step;
      append_json_string(step, reference.text);
      return put(fmt::format("{{\"$result\":{{\"workflow\":{},\"step\":{}}}}}",
                             value_of("workflow.id", names).value_or("0"), step));
    }
    if (const auto value = value_of(reference.text, names)) return put(*value);
    if (reference.fallback) return put(*reference.fallback);
    if (missing == Missing::null) return put("null");
    return bad(fmt::format("\"$ref\": \"{}\" does not exist", reference.text.substr(0, 200)));
  }

  Result<void> put_object(std::string_view json) {
    MS_TRY_ASSIGN(const auto reference, read_reference(json));
    if (reference) return put_reference(*reference);
    MS_TRY(put("{"));
    JsonReader in(json, JsonReader::Unknown::skip);
    Result<void> done;
    bool first = true;
    in.members([&](std::string_view key) {
      std::string name(first ? "" : ",");
      append_json_string(name, key);
      first = false;
      std::string value;
      if (!in.raw(value, JsonReader::Null::take)) return false;
      done = put(name + ":");
      if (done) done = put_value(value);
      return done.has_value();
    });
    if (!done) return done;
    return put("}");
  }

  Result<void> put_array(std::string_view json) {
    MS_TRY(put("["));
    JsonReader in(json, JsonReader::Unknown::skip);
    Result<void> done;
    in.array(SIZE_MAX, [&](std::size_t i) {
      std::string value;
      if (!in.raw(value, JsonReader::Null::take)) return false;
      if (i != 0) done = put(",");
      if (done) done = put_value(value);
      return done.has_value();
    });
    if (!done) return done;
    return put("]");
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxJsonDepth bounds it
  Result<void> put_value(std::string_view json) {
    const JsonType type = JsonReader(json, JsonReader::Unknown::skip).peek();
    if (type == JsonType::object) return put_object(json);
    if (type == JsonType::array) return put_array(json);
    return put(json);
  }
};

// Compact JSON: a scalar, or a container without blanks, so that equal values have equal texts.
std::string plain(std::string_view json) {
  const Names nothing = [](std::string_view) { return std::optional<std::string>(); };
  Resolver resolver{nothing, Missing::null, SIZE_MAX};
  return resolver.put_value(json) ? std::move(resolver.out) : std::string(json);
}

}  // namespace

std::string_view name_of(std::string_view reference) {
  return reference.substr(0, reference.find('.'));
}

std::optional<std::string> value_of(std::string_view reference, const Names& names) {
  std::optional<std::string> value = names(name_of(reference));
  for (auto dot = reference.find('.'); value && dot != std::string_view::npos;) {
    const auto next = reference.find('.', dot + 1);
    value = member(
        *value, reference.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
  return value;
}

Result<std::string> resolve(std::string_view json, const Names& names, Missing missing,
                            std::size_t limit) {
  Resolver resolver{names, missing, limit};
  if (json.find("\"$ref\"") == std::string_view::npos && json.size() <= limit)
    return std::string(json);
  MS_TRY(resolver.put_value(json));
  return std::move(resolver.out);
}

Result<void> for_each_reference(std::string_view field, std::string_view json,
                                const std::function<void(std::string_view)>& found) {
  const Names names = [&](std::string_view name) {
    found(name);
    return std::optional<std::string>("null");
  };
  // "default" is used verbatim, so it must not contain references.
  auto checked = resolve(json, names, Missing::null, SIZE_MAX);
  if (checked) return {};
  Error error = std::move(checked).error();
  error.field = std::string(field);
  error.message = fmt::format("{}: {}", field, error.message);
  return error;
}

bool refers_to_all(std::string_view json, std::string_view name) {
  static constexpr std::string_view kAll = "\"\\u0000all\"";
  const Names names = [&](std::string_view asked) {
    return std::optional<std::string>(asked == name ? kAll : "null");
  };
  const auto resolved = resolve(json, names, Missing::null, SIZE_MAX);
  return resolved && resolved->find(kAll) != std::string::npos;
}

bool refers_to_all(const StepSpec& step, std::string_view name) {
  return (step.job && refers_to_all(step.job->args, name)) || refers_to_all(step.each, name) ||
         (step.workflow && refers_to_all(step.workflow->input, name));
}

bool is_something(std::string_view json) {
  JsonReader in(json, JsonReader::Unknown::skip);
  switch (in.peek()) {
    case JsonType::boolean:
      return json.starts_with("true");
    case JsonType::number: {
      double value = 0;
      return in.number(value, -1.7e308, 1.7e308) && value != 0;
    }
    case JsonType::string:
      return json != "\"\"";
    case JsonType::object:
      return plain(json) != "{}";
    case JsonType::array:
      return plain(json) != "[]";
    default:
      return false;
  }
}

bool same_value(std::string_view a, std::string_view b) {
  JsonReader left(a, JsonReader::Unknown::skip), right(b, JsonReader::Unknown::skip);
  if (left.peek() != right.peek()) return false;
  if (left.peek() == JsonType::number) {
    double x = 0, y = 0;
    return left.number(x, -1.7e308, 1.7e308) && right.number(y, -1.7e308, 1.7e308) && x == y;
  }
  if (left.peek() == JsonType::string) {
    std::string x, y;
    return left.string(x) && right.string(y) && x == y;
  }
  return plain(a) == plain(b);
}

}  // namespace mainspring::workflow
