// The walk over the tape, with errors that name the field; writing.
#include "api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "api/unescaped_run.h"
#include "base/edit_distance.h"

namespace mainspring {
namespace {

constexpr std::size_t kIsIndex = static_cast<std::size_t>(-1);
constexpr std::size_t kShownBytes = 64;  // of a value in a message

std::string_view type_name(JsonType type) {
  switch (type) {
    case JsonType::object:
      return "an object";
    case JsonType::array:
      return "an array";
    case JsonType::string:
      return "a string";
    case JsonType::number:
      return "a number";
    case JsonType::boolean:
      return "true or false";
    case JsonType::null:
      return "null";
    case JsonType::end:
      return "nothing";
    case JsonType::bad:
      break;
  }
  return "something else";
}

bool is_continuation(unsigned char c) {
  return (c & 0xc0) == 0x80;
}

// Bytes of the UTF-8 sequence at `p`, 0 if it is not one. Source: Unicode 15, table 3-7.
std::size_t utf8_length(const char* p, const char* end) {
  const auto at = [&](std::size_t i) {
    return i < static_cast<std::size_t>(end - p) ? static_cast<unsigned char>(p[i])
                                                 : static_cast<unsigned char>(0);
  };
  const unsigned char a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return is_continuation(b) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    const bool second_ok = a == 0xe0   ? b >= 0xa0 && b <= 0xbf
                           : a == 0xed ? b >= 0x80 && b <= 0x9f
                                       : is_continuation(b);
    return second_ok && is_continuation(at(2)) ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    const bool second_ok = a == 0xf0   ? b >= 0x90 && b <= 0xbf
                           : a == 0xf4 ? b >= 0x80 && b <= 0x8f
                                       : is_continuation(b);
    return second_ok && is_continuation(at(2)) && is_continuation(at(3)) ? 4 : 0;
  }
  return 0;
}

}  // namespace

const std::string_view* nearest_name(std::string_view name,
                                     std::span<const std::string_view> known) {
  const std::string_view* nearest = nullptr;
  std::size_t least = 3;
  for (const std::string_view& one : known) {
    const std::size_t distance = edit_distance(name, one);
    if (distance < least) least = distance, nearest = &one;
  }
  return nearest;
}

JsonReader::JsonReader(std::string_view text, Unknown unknown, JsonValues values)
    : text_(text), tape_(read_json_tape(text, values)), unknown_(unknown) {}

// -- errors

bool JsonReader::fail(ErrorCode code, std::string message, std::string_view field) {
  if (!error_) {
    error_ = Error{.code = code, .message = std::move(message), .field = std::string(field)};
  }
  return false;
}

std::string JsonReader::path(std::string_view field) const {
  std::string out;
  for (std::size_t i = 0; i < steps_; ++i) {
    if (path_[i].index != kIsIndex) {
      out += fmt::format("[{}]", path_[i].index);
    } else if (!path_[i].name.empty()) {
      if (!out.empty()) out += '.';
      out += path_[i].name;
    }
  }
  if (!field.empty()) {
    if (!out.empty()) out += '.';
    out += field;
  }
  return out;
}

std::string JsonReader::label() const {
  const std::string whole = path();
  const std::size_t dot = whole.rfind('.');
  const std::string last = dot == std::string::npos ? whole : whole.substr(dot + 1);
  return last.empty() ? "the body" : last;
}

bool JsonReader::fail_here(std::string_view rule) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", label(), rule), path());
}

bool JsonReader::fail_value(std::string_view rule) {
  if (failed() || next_ == 0) return false;
  const std::string_view value = cut_text(slice(tape_.tokens[next_ - 1]), kShownBytes);
  return fail(ErrorCode::invalid_argument, fmt::format("{} {}: {}", label(), value, rule), path());
}

bool JsonReader::missing(std::string_view field) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: must be given", field), path(field));
}

bool JsonReader::fail_syntax(std::string_view what, std::size_t at) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("the body is not JSON: {} at byte {}", what, at), path());
}

bool JsonReader::fail_bad() {
  if (tape_.too_deep) return fail_here(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  if (tape_.unfit) {
    const std::string_view value = cut_text(slice(tape_.tokens.back()), kShownBytes);
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}{}{}: {}", tape_.path.empty() ? "the body" : tape_.path,
                            value.empty() ? "" : " ", value, tape_.problem),
                tape_.path);
  }
  return fail_syntax(tape_.problem, tape_.tokens.back().begin);
}

bool JsonReader::fail_type(std::string_view wanted) {
  if (failed()) return false;
  const JsonType type = next().type;
  if (type == JsonType::end) return fail_syntax("unexpected end", next().begin);
  if (type == JsonType::bad) return fail_bad();
  return fail_here(fmt::format("must be {}, not {}", wanted, type_name(type)));
}

bool JsonReader::fail_too_many(std::size_t limit) {
  --steps_;  // the array's own name
  return fail(ErrorCode::too_large, fmt::format("{} has more than {} entries", label(), limit),
              path());
}

bool JsonReader::fail_unknown(std::string_view key, std::span<const std::string_view> known) {
  const std::string_view shown = cut_text(key, kShownBytes);
  const std::string_view* const best = nearest_name(shown, known);
  std::string message = fmt::format("\"{}\": no such field here; ", shown);
  if (best != nullptr) {
    message += fmt::format("did you mean \"{}\"?", *best);
  } else {
    message += fmt::format("known are {}", fmt::join(known, ", "));
  }
  path_[steps_ - 1].name = {};
  return fail(ErrorCode::invalid_argument, std::move(message), path(shown));
}

// -- walking

JsonType JsonReader::peek() {
  return failed() ? JsonType::bad : next().type;
}

std::size_t JsonReader::consumed() const {
  if (next_ == 0) return 0;
  const JsonToken& last = tape_.tokens[next_ - 1];
  const bool opened = last.type == JsonType::object || last.type == JsonType::array;
  return opened ? last.begin + 1 : last.end;
}

std::string_view JsonReader::decoded(const JsonToken& string) const {
  if (string.escaped) return tape_.unescaped[string.link];
  return text_.substr(string.begin + 1, string.end - string.begin - 2);
}

// Passes over one value of any shape.
bool JsonReader::skip_value() {
  switch (peek()) {
    case JsonType::object:
    case JsonType::array:
      if (next().link == 0) {  // the document is bad before its end
        next_ = tape_.tokens.size() - 1;
        return fail_bad();
      }
      next_ = next().link;
      return true;
    case JsonType::end:
    case JsonType::bad:
      return fail_type("a value");
    default:
      ++next_;
      return true;
  }
}

// -- objects and arrays

bool JsonReader::push(JsonType type, std::string_view wanted) {
  if (peek() != type) return fail_type(wanted);
  if (steps_ == kMaxTypedDepth) return fail_here("nested too deeply");
  ++next_;
  path_[steps_++] = Step{{}, type == JsonType::array ? 0 : kIsIndex};
  return true;
}

bool JsonReader::begin_object() {
  return push(JsonType::object, "an object");
}

bool JsonReader::begin_array() {
  return push(JsonType::array, "an array");
}

bool JsonReader::next_member(std::string_view& key) {
  if (failed()) return false;
  name_step({});
  const JsonToken& token = next();
  if (token.type == JsonType::bad) return fail_bad();
  ++next_;
  if (token.type == JsonType::end) return false;
  key = decoded(token);
  return true;
}

bool JsonReader::next_element(std::size_t index) {
  if (failed()) return false;
  if (next().type == JsonType::end) {
    ++next_;
    return false;
  }
  path_[steps_ - 1].index = index;
  return next().type != JsonType::bad || fail_bad();
}

bool JsonReader::leave() {
  if (failed()) return false;
  --steps_;
  return true;
}

// -- values

bool JsonReader::decode_string(std::string& out) {
  if (peek() != JsonType::string) return fail_type("a string");
  out.assign(decoded(next()));
  ++next_;
  return true;
}

bool JsonReader::string(std::string& out) {
  if (!decode_string(out)) return false;
  if (std::memchr(out.data(), 0, out.size()) != nullptr)
    return fail_here("must not contain U+0000");
  return true;
}

bool JsonReader::text(std::string& out, std::size_t limit) {
  if (!decode_string(out)) return false;
  std::replace(out.begin(), out.end(), '\0', '?');
  if (out.size() > limit) out.resize(cut_text(out, limit).size());
  return true;
}

bool JsonReader::boolean(bool& out) {
  if (peek() != JsonType::boolean) return fail_type("true or false");
  out = text_[next().begin] == 't';
  ++next_;
  return true;
}

bool JsonReader::integer(std::int64_t& out, std::int64_t min, std::int64_t max) {
  if (peek() != JsonType::number) return fail_type("a whole number");
  const std::string_view digits = slice(next());
  ++next_;
  const std::string_view shown = digits.substr(0, kShownBytes);
  if (digits.find_first_of(".eE") != std::string_view::npos)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: must be a whole number", label(), shown), path());
  const auto [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (problem != std::errc() || out < min || out > max) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: must be {} to {}", label(), shown, min, max), path());
  }
  return true;
}

bool JsonReader::integer(int& out, int min, int max) {
  std::int64_t value = 0;
  if (!integer(value, std::int64_t{min}, std::int64_t{max})) return false;
  out = static_cast<int>(value);
  return true;
}

bool JsonReader::number(double& out, double min, double max) {
  if (peek() != JsonType::number) return fail_type("a number");
  const std::string_view digits = slice(next());
  ++next_;
  const auto [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  // Out of a double's range is either as good as 0, or infinite and so out of every range.
  if (problem == std::errc::result_out_of_range) {
    out = std::strtod(std::string(digits).c_str(), nullptr);
  }
  if (!(out >= min && out <= max)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} {}: must be {} to {}", label(), digits.substr(0, kShownBytes), min, max),
        path());
  }
  return true;
}

bool JsonReader::duration(Duration& out) {
  std::string value;
  if (peek() != JsonType::string) {
    return fail_type("a duration, a string such as \"250ms\", \"30s\" or \"15m\"");
  }
  if (!decode_string(value)) return false;
  auto parsed = parse_duration(value);
  if (!parsed) {
    return fail(parsed.error().code, fmt::format("{}: {}", label(), parsed.error().message),
                path());
  }
  out = *parsed;
  return true;
}

bool JsonReader::wall_time(WallTime& out) {
  std::string value;
  if (peek() != JsonType::string) {
    return fail_type("an instant, a string such as \"2026-01-31T09:00:00Z\"");
  }
  if (!decode_string(value)) return false;
  auto parsed = parse_wall_time(value);
  if (!parsed) {
    return fail(parsed.error().code, fmt::format("{}: {}", label(), parsed.error().message),
                path());
  }
  out = *parsed;
  return true;
}

bool JsonReader::raw(std::string& out, Null null_is) {
  if (peek() == JsonType::null && null_is == Null::refuse) return fail_type("a value");
  const JsonToken& token = next();
  if (!skip_value()) return false;
  out.assign(slice(token));
  return true;
}

bool JsonReader::raw_string_map(std::string& out) {
  if (peek() != JsonType::object) return fail_type("an object of strings");
  const JsonToken& map = next();
  if (!begin_object()) return false;
  std::string_view key;
  while (next_member(key)) {
    if (peek() == JsonType::bad) return fail_bad();
    if (peek() != JsonType::string) return fail_here("must be an object whose values are strings");
    ++next_;
  }
  if (!leave()) return false;
  out.assign(slice(map));
  return true;
}

bool JsonReader::skip() {
  return !failed() && skip_value();
}

bool JsonReader::null() {
  if (peek() != JsonType::null) return false;
  ++next_;
  return true;
}

bool JsonReader::end() {
  if (failed()) return false;
  if (next().type == JsonType::bad) return fail_bad();
  if (next_ + 1 == tape_.tokens.size()) return true;
  return fail_syntax("extra text after the end", next().begin);
}

namespace {

// The text need not be a body: a field, a file or an argument is named instead.
Error named(std::string_view field, const Error& error) {
  std::string_view why = error.message;
  std::string path(field);
  if (!field.empty() && !error.field.empty()) {
    path += error.field.starts_with('[') ? error.field : '.' + error.field;
    why.remove_prefix(std::min(why.size(), error.field.size()));
    return invalid(path, path + std::string(why));
  }
  for (const std::string_view body : {"the body is ", "the body: ", "the body "}) {
    if (field.empty() || !why.starts_with(body)) continue;
    why.remove_prefix(body.size());
    return invalid(path, fmt::format("{}{}{}", field, body.ends_with("y ") ? " " : ": ", why));
  }
  return invalid(path, fmt::format("{}: {}", field, why));
}

}  // namespace

Result<void> check_json(std::string_view field, std::string_view text) {
  JsonReader in(text, JsonReader::Unknown::refuse);
  if (in.skip() && in.end()) return {};
  return named(field, in.error());
}

Result<std::string> json_or_text(std::string_view field, std::string_view text) {
  JsonReader in(text, JsonReader::Unknown::refuse);
  if (in.skip() && in.end()) return std::string(text);
  // Several words are a text, whatever the first is.
  const bool value = std::string_view("{[\"").find(text.front()) != std::string_view::npos ||
                     text.find(' ') == std::string_view::npos;
  if (in.unfit() && value) return named(field, in.error());
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_utf8(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    const std::size_t length = utf8_length(p, end);
    if (length == 0) return false;
    p += length;
  }
  return true;
}

std::string_view cut_text(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && is_continuation(static_cast<unsigned char>(text[limit]))) --limit;
  return text.substr(0, limit);
}

// -- writing

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char* const start = p;
    while (end - p >= 8) {
      const std::size_t run = unescaped_run(p);
      p += run;
      if (run != 8) break;
    }
    out.append(start, p);
    if (p == end) break;
    const auto c = static_cast<unsigned char>(*p);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += *p++;
    } else if (c >= 0x20 && c < 0x80) {
      out += *p++;
    } else if (c >= 0x80) {
      const std::size_t length = utf8_length(p, end);
      if (length == 0) {
        out += "\xef\xbf\xbd";
        ++p;
      } else {
        out.append(p, length);
        p += length;
      }
    } else {
      ++p;
      if (c == '\n') {
        out += "\\n";
      } else if (c == '\t') {
        out += "\\t";
      } else if (c == '\r') {
        out += "\\r";
      } else {
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
      }
    }
  }
  out += '"';
}

void append_json_number(std::string& out, std::int64_t value) {
  char buffer[24];
  const auto [last, problem] = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, last);
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) value = 0;  // JSON has no such numbers
  char buffer[40];
  const auto [last, problem] = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, last);
}

void append_json_time(std::string& out, WallTime t) {
  using namespace std::chrono;
  const sys_time<microseconds> point{microseconds(t.us())};
  const auto midnight = floor<days>(point);
  const year_month_day date{midnight};
  const hh_mm_ss<microseconds> clock{point - midnight};
  char buffer[32];
  char* p = buffer;
  const auto digits = [&p](std::int64_t value, int count) {
    for (int i = count - 1; i >= 0; --i, value /= 10) p[i] = static_cast<char>('0' + value % 10);
    p += count;
  };
  *p++ = '"';
  digits(std::clamp(static_cast<int>(date.year()), 0, 9999), 4), *p++ = '-';
  digits(static_cast<unsigned>(date.month()), 2), *p++ = '-';
  digits(static_cast<unsigned>(date.day()), 2), *p++ = 'T';
  digits(clock.hours().count(), 2), *p++ = ':';
  digits(clock.minutes().count(), 2), *p++ = ':';
  digits(clock.seconds().count(), 2);
  const auto us = clock.subseconds().count();
  if (us != 0) {
    *p++ = '.';
    us % 1000 == 0 ? digits(us / 1000, 3) : digits(us, 6);
  }
  *p++ = 'Z', *p++ = '"';
  out.append(buffer, p);
}

}  // namespace mainspring
