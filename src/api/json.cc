// The pull parser: grammar, UTF-8, depth, and errors that name the field.
#include "api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

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

bool is_digit(char c) {
  return c >= '0' && c <= '9';
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

// The first of eight bytes that ends a plain run (a quote, a backslash, a control character, not
// ASCII), 8 if none does.
std::size_t plain_run(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, 8);
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  const auto has_zero = [](std::uint64_t v) { return (v - kOnes) & ~v & kHigh; };
  const std::uint64_t stops = (word & kHigh) | has_zero(word ^ (kOnes * '"')) |
                              has_zero(word ^ (kOnes * '\\')) |
                              ((word - kOnes * 0x20) & ~word & kHigh);
  static_assert(std::endian::native == std::endian::little);
  return stops == 0 ? 8 : static_cast<std::size_t>(std::countr_zero(stops)) / 8;
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hex digits at p, -1 if they are not there.
int hex4(const char* p, const char* end) {
  if (end - p < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_value(p[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& out, std::uint32_t c) {
  const auto byte = [&](std::uint32_t v) {
    out += static_cast<char>(static_cast<unsigned char>(v));
  };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f));
  if (c < 0x10000) {
    return byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f));
  }
  byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)),
      byte(0x80 | (c & 0x3f));
}

// `raw` has been scanned: every escape in it is well-formed.
void append_unescaped(std::string& out, std::string_view raw) {
  const char* const end = raw.data() + raw.size();
  for (const char* p = raw.data(); p < end;) {
    const auto* stop =
        static_cast<const char*>(std::memchr(p, '\\', static_cast<std::size_t>(end - p)));
    if (stop == nullptr) stop = end;
    out.append(p, stop);
    if (stop == end) return;
    p = stop + 2;
    switch (stop[1]) {
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        auto c = static_cast<std::uint32_t>(hex4(p, end));
        p += 4;
        if (c >= 0xd800 && c <= 0xdbff) {
          const auto low = static_cast<std::uint32_t>(hex4(p + 2, end));
          p += 6;
          c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
        append_utf8(out, c);
        break;
      }
      default:
        out += stop[1];
    }
  }
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

JsonReader::JsonReader(std::string_view text, Unknown unknown)
    : at_(text.data()), begin_(text.data()), end_(text.data() + text.size()), unknown_(unknown) {}

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

bool JsonReader::missing(std::string_view field) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: must be given", field), path(field));
}

bool JsonReader::fail_syntax(std::string_view what) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("the body is not JSON: {} at byte {}", what, at_ - begin_), path());
}

bool JsonReader::fail_type(std::string_view wanted) {
  const JsonType type = peek();
  if (type == JsonType::end) return fail_syntax("it ends too early");
  if (type == JsonType::bad) return fail_syntax("no value");
  return fail_here(fmt::format("must be {}, not {}", wanted, type_name(type)));
}

bool JsonReader::fail_too_many(std::size_t limit) {
  --steps_;  // the array's own name
  return fail(ErrorCode::too_large, fmt::format("{} has more than {} entries", label(), limit),
              path());
}

bool JsonReader::fail_unknown(std::string_view key, std::span<const std::string_view> known) {
  const std::string_view shown = cut_text(key, kShownBytes);
  const std::string_view* best = nullptr;
  std::size_t best_distance = 3;
  for (const std::string_view& name : known) {
    const std::size_t distance = edit_distance(shown, name);
    if (distance < best_distance) best_distance = distance, best = &name;
  }
  std::string message = fmt::format("\"{}\": no such field here; ", shown);
  if (best != nullptr) {
    message += fmt::format("did you mean \"{}\"?", *best);
  } else {
    message += fmt::format("known are {}", fmt::join(known, ", "));
  }
  path_[steps_ - 1].name = {};
  return fail(ErrorCode::invalid_argument, std::move(message), path(shown));
}

// -- scanning

void JsonReader::skip_space() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

JsonType JsonReader::peek() {
  if (failed()) return JsonType::bad;
  skip_space();
  if (at_ == end_) return JsonType::end;
  switch (*at_) {
    case '{':
      return JsonType::object;
    case '[':
      return JsonType::array;
    case '"':
      return JsonType::string;
    case 't':
    case 'f':
      return JsonType::boolean;
    case 'n':
      return JsonType::null;
    default:
      return is_digit(*at_) || *at_ == '-' ? JsonType::number : JsonType::bad;
  }
}

bool JsonReader::scan_escape() {
  if (end_ - at_ < 2) return fail_syntax("a string does not end");
  const char c = at_[1];
  if (c != 'u') {
    if (std::strchr("\"\\/bfnrt", c) == nullptr || c == '\0') return fail_syntax("a bad escape");
    at_ += 2;
    return true;
  }
  const int first = hex4(at_ + 2, end_);
  if (first < 0) return fail_syntax("a bad \\u escape");
  if (first >= 0xdc00 && first <= 0xdfff) return fail_syntax("half of a surrogate pair");
  if (first >= 0xd800 && first <= 0xdbff) {
    const bool pair = end_ - at_ >= 12 && at_[6] == '\\' && at_[7] == 'u';
    const int second = pair ? hex4(at_ + 8, end_) : -1;
    if (second < 0xdc00 || second > 0xdfff) return fail_syntax("half of a surrogate pair");
    at_ += 6;
  }
  at_ += 6;
  return true;
}

bool JsonReader::scan_string(std::string_view& raw, bool& escaped) {
  const char* const start = ++at_;
  escaped = false;
  for (;;) {
    if (end_ - at_ >= 8) {
      const std::size_t run = plain_run(at_);
      at_ += run;
      if (run == 8) continue;
    } else if (at_ == end_) {
      return fail_syntax("a string does not end");
    }
    const auto c = static_cast<unsigned char>(*at_);
    if (c == '"') {
      raw = std::string_view(start, static_cast<std::size_t>(at_ - start));
      ++at_;
      return true;
    }
    if (c == '\\') {
      escaped = true;
      if (!scan_escape()) return false;
    } else if (c < 0x20) {
      return fail_syntax("a control character in a string, which must be escaped,");
    } else {
      const std::size_t length = utf8_length(at_, end_);
      if (length == 0) return fail_syntax("bytes that are not UTF-8");
      at_ += length;
    }
  }
}

bool JsonReader::scan_number(std::string_view& text, bool& whole) {
  const char* const start = at_;
  const auto digits = [&] {
    const char* const from = at_;
    while (at_ < end_ && is_digit(*at_)) ++at_;
    return at_ > from;
  };
  if (*at_ == '-') ++at_;
  if (at_ < end_ && *at_ == '0') {
    ++at_;
    if (at_ < end_ && is_digit(*at_)) return fail_syntax("a number that begins with 0");
  } else if (!digits()) {
    return fail_syntax("a bad number");
  }
  whole = true;
  if (at_ < end_ && *at_ == '.') {
    whole = false;
    ++at_;
    if (!digits()) return fail_syntax("a bad number");
  }
  if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
    whole = false;
    ++at_;
    if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    if (!digits()) return fail_syntax("a bad number");
  }
  text = std::string_view(start, static_cast<std::size_t>(at_ - start));
  return true;
}

bool JsonReader::scan_literal(std::string_view word) {
  if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) {
    return fail_syntax("no value");
  }
  at_ += word.size();
  return true;
}

bool JsonReader::scan_scalar(JsonType type) {
  std::string_view text;
  bool flag = false;
  switch (type) {
    case JsonType::string:
      return scan_string(text, flag);
    case JsonType::number:
      return scan_number(text, flag);
    case JsonType::boolean:
      return scan_literal(*at_ == 't' ? "true" : "false");
    case JsonType::null:
      return scan_literal("null");
    case JsonType::end:
      return fail_syntax("it ends too early");
    default:
      return fail_syntax("no value");
  }
}

// Passes over one value of any shape, without recursion: `arrays` has a bit per open container.
bool JsonReader::skip_value() {
  static_assert(kMaxJsonDepth <= 64);
  std::uint64_t arrays = 0;
  const int outer = depth_;
  for (;;) {
    const JsonType type = peek();
    bool opened = false;
    if (type == JsonType::object || type == JsonType::array) {
      if (depth_ == kMaxJsonDepth) {
        return fail_here(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
      }
      ++depth_;
      arrays = arrays << 1 | (type == JsonType::array ? 1u : 0u);
      ++at_;
      skip_space();
      opened = true;
      if (at_ < end_ && *at_ == (type == JsonType::array ? ']' : '}')) opened = false;
    } else if (!scan_scalar(type)) {
      return false;
    }
    // After a value: close what ends here, then go on to the next member or element.
    while (!opened) {
      if (depth_ == outer) return true;
      skip_space();
      if (at_ == end_) return fail_syntax("it ends too early");
      const bool in_array = (arrays & 1) != 0;
      if (*at_ == (in_array ? ']' : '}')) {
        ++at_;
        --depth_;
        arrays >>= 1;
        continue;
      }
      if (*at_ != ',') return fail_syntax(in_array ? "no , or ]" : "no , or }");
      ++at_;
      opened = true;
    }
    if ((arrays & 1) == 0) {
      std::string_view key;
      bool escaped = false;
      if (peek() != JsonType::string) return fail_syntax("no member name");
      if (!scan_string(key, escaped)) return false;
      skip_space();
      if (at_ == end_ || *at_ != ':') return fail_syntax("no :");
      ++at_;
    }
  }
}

// -- objects and arrays

bool JsonReader::push(char bracket, std::string_view type) {
  if (failed()) return false;
  skip_space();
  if (at_ == end_ || *at_ != bracket) return fail_type(type);
  if (steps_ == kMaxTypedDepth) return fail_here("nested too deeply");
  ++at_;
  ++depth_;
  return true;
}

bool JsonReader::begin_object() {
  if (!push('{', "an object")) return false;
  path_[steps_++] = Step{{}, kIsIndex};
  return true;
}

bool JsonReader::begin_array() {
  if (!push('[', "an array")) return false;
  path_[steps_++] = Step{{}, 0};
  return true;
}

bool JsonReader::next_member(bool first, std::string_view& key) {
  if (failed()) return false;
  name_step({});
  skip_space();
  if (at_ < end_ && *at_ == '}') {
    ++at_;
    return false;
  }
  if (!first) {
    if (at_ == end_ || *at_ != ',') return fail_syntax("no , or }");
    ++at_;
    skip_space();
  }
  if (at_ == end_ || *at_ != '"') return fail_syntax("no member name");
  bool escaped = false;
  if (!scan_string(key, escaped)) return false;
  if (escaped) {
    scratch_.clear();
    append_unescaped(scratch_, key);
    key = scratch_;
  }
  skip_space();
  if (at_ == end_ || *at_ != ':') return fail_syntax("no :");
  ++at_;
  return true;
}

bool JsonReader::next_element(std::size_t index) {
  if (failed()) return false;
  skip_space();
  if (at_ < end_ && *at_ == ']') {
    ++at_;
    return false;
  }
  if (index != 0) {
    if (at_ == end_ || *at_ != ',') return fail_syntax("no , or ]");
    ++at_;
  }
  path_[steps_ - 1].index = index;
  return true;
}

bool JsonReader::leave() {
  if (failed()) return false;
  --steps_;
  --depth_;
  return true;
}

// -- values

bool JsonReader::decode_string(std::string& out) {
  if (peek() != JsonType::string) return fail_type("a string");
  std::string_view raw_text;
  bool escaped = false;
  if (!scan_string(raw_text, escaped)) return false;
  if (!escaped) {
    out.assign(raw_text);
  } else {
    out.clear();
    append_unescaped(out, raw_text);
  }
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
  out = *at_ == 't';
  return scan_scalar(JsonType::boolean);
}

bool JsonReader::integer(std::int64_t& out, std::int64_t min, std::int64_t max) {
  if (peek() != JsonType::number) return fail_type("a whole number");
  std::string_view digits;
  bool whole = false;
  if (!scan_number(digits, whole)) return false;
  const std::string_view shown = digits.substr(0, kShownBytes);
  if (!whole)
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
  std::string_view digits;
  bool whole = false;
  if (!scan_number(digits, whole)) return false;
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
  const JsonType type = peek();
  if (type == JsonType::null && null_is == Null::refuse) return fail_type("a value");
  const char* const start = at_;
  if (!skip_value()) return false;
  out.assign(start, at_);
  return true;
}

bool JsonReader::raw_string_map(std::string& out) {
  if (peek() != JsonType::object) return fail_type("an object of strings");
  const char* const start = at_;
  if (!begin_object()) return false;
  std::string_view key, value;
  bool escaped = false;
  for (bool first = true; next_member(first, key); first = false) {
    if (peek() != JsonType::string) return fail_here("must be an object whose values are strings");
    if (!scan_string(value, escaped)) return false;
  }
  if (!leave()) return false;
  out.assign(start, at_);
  return true;
}

bool JsonReader::skip() {
  return !failed() && skip_value();
}

bool JsonReader::null() {
  return peek() == JsonType::null && scan_scalar(JsonType::null);
}

bool JsonReader::end() {
  const JsonType type = peek();
  if (failed()) return false;
  return type == JsonType::end || fail_syntax("something after its end");
}

Result<void> check_json(std::string_view field, std::string_view text) {
  JsonReader in(text, JsonReader::Unknown::refuse);
  if (in.skip() && in.end()) return {};
  Error error = in.error();
  return invalid(std::string(field), fmt::format("{}: {}", field, error.message));
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
      const std::size_t run = plain_run(p);
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
