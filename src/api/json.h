// JsonReader and JSON writing: the building blocks of the shapes.
//
// RapidJSON 1.1.0 (in Debian 12) parses: its SAX reader checks the whole document in one pass
// (grammar, UTF-8, numbers, depth) when a JsonReader is created, and records a tape of tokens with
// their positions in the text (json_tape.h). It has no pull mode. JsonReader walks the tape as the
// caller asks, without building a tree, and only checks fields and their types. A value that is
// only passed on (args, result) is taken as a slice of the input. The first error is kept, with the
// path of its field, and every later call returns false, so callers need not check after each step.
// A syntax error is reported when the walk reaches its position, so that it also has a path:
//
//   struct Point { int x = 0, y = 0; };
//   constexpr JsonField<Point> kPoint[] = {
//       {"x", [](JsonReader& in, Point& p) { return in.integer(p.x, 0, 9); }},
//       {"y", [](JsonReader& in, Point& p) { return in.integer(p.y, 0, 9); }},
//   };
//   JsonReader in(body, JsonReader::Unknown::refuse);
//   Point point;
//   if (!in.object(kPoint, point) || !in.end()) return in.error();
//
// Not thread-safe; the text must outlive the reader. The tape takes 16 bytes for each value, key
// and closing bracket: for most requests as much as the text, at worst ("[[],[],...") 11 times, and
// while it grows three times that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/json_tape.h"
#include "api/shapes.h"
#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

class JsonReader;

// A member of an object and the function that reads its value into a T.
template <class T>
struct JsonField {
  std::string_view name;
  bool (*read)(JsonReader& in, T& into);
};

class JsonReader {
 public:
  enum class Unknown { refuse, skip };  // members that the table does not have
  // A reader of answers and of what is stored takes values as they are.
  JsonReader(std::string_view text, Unknown unknown)
      : JsonReader(text, unknown,
                   unknown == Unknown::refuse ? JsonValues::exact : JsonValues::any) {}
  JsonReader(std::string_view text, Unknown unknown, JsonValues values);

  // The type of the next value; `end` after the last, `bad` after a failure and at a syntax error.
  JsonType peek();

  // An object by its table; at most 64 fields. Repeated members are refused.
  template <class T, std::size_t N>
  bool object(const JsonField<T> (&fields)[N], T& into) {
    static_assert(N <= 64);
    if (!begin_object()) return false;
    std::uint64_t seen = 0;
    std::size_t guess = 0;
    for (;;) {
      std::string_view key;
      if (!next_member(key)) return leave();
      // Members are usually in the table's order: try the one after the last first.
      std::size_t i = guess, tried = 0;
      while (tried < N && fields[i].name != key) {
        i = i + 1 == N ? 0 : i + 1;
        ++tried;
      }
      if (tried == N) {
        if (!unknown_member(
                key, [&](std::size_t n) { return fields[n].name; }, N))
          return false;
        continue;
      }
      name_step(fields[i].name);
      if ((seen >> i) & 1) return fail_here("given twice");
      seen |= std::uint64_t{1} << i;
      if (!fields[i].read(*this, into)) return false;
      guess = i + 1 == N ? 0 : i + 1;
    }
  }

  // Calls `member(name)` before each value of an object with any members, which must read it.
  template <class F>
  bool members(F&& member) {
    if (!begin_object()) return false;
    for (std::string_view key; next_member(key);) {
      name_step(key);
      if (!member(key)) return false;
    }
    return leave();
  }

  // Calls `element(index)` before each element, which must read it. More than `limit` elements are
  // too_large.
  template <class F>
  bool array(std::size_t limit, F&& element) {
    if (!begin_array()) return false;
    for (std::size_t i = 0;; ++i) {
      if (!next_element(i)) return leave();
      if (i == limit) return fail_too_many(limit);
      if (!element(i)) return false;
    }
  }

  bool string(std::string& out);
  // At most `limit` bytes: longer text is cut at a character's boundary.
  bool text(std::string& out, std::size_t limit);
  bool boolean(bool& out);
  bool integer(std::int64_t& out, std::int64_t min, std::int64_t max);
  bool integer(int& out, int min, int max);
  bool number(double& out, double min, double max);
  // Strings as of parse_duration and parse_wall_time.
  bool duration(Duration& out);
  bool wall_time(WallTime& out);
  // Any value, as a slice of the input; not null unless `Null::take`.
  enum class Null { refuse, take };
  bool raw(std::string& out, Null null = Null::refuse);
  // An object whose values are all strings, as the slice of the input.
  bool raw_string_map(std::string& out);
  bool skip();
  // True and consumed if the next value is null.
  bool null();
  // True if the whole text was read.
  bool end();

  // Refuses the value that was read last, or the object being read: `rule` as in "must be 0 to 9".
  // The message is "<last name of the path> <rule>". Always returns false.
  bool fail_here(std::string_view rule);
  // The same for a value that has just been read: "<last name of the path> <value>: <rule>".
  bool fail_value(std::string_view rule);
  bool fail(ErrorCode code, std::string message, std::string_view field);
  bool missing(std::string_view field);  // "must be given"
  // The current path: "jobs[3]"; with a field: "jobs[3].priority".
  std::string path(std::string_view field = {}) const;

  // Bytes of the text up to the end of the last read value, and after it.
  std::size_t consumed() const;
  std::size_t remaining() const { return text_.size() - consumed(); }
  bool failed() const { return error_.has_value(); }
  // The text could be JSON, but has a value that is refused.
  bool unfit() const { return tape_.unfit; }
  // JsonValues::any: the text has a number beyond the range of a double.
  bool beyond() const { return tape_.beyond; }
  // The first problem. failed() must be true.
  Error error() const { return *error_; }

 private:
  struct Step {
    std::string_view name;
    std::size_t index;
  };
  static constexpr std::size_t kMaxTypedDepth = 24;  // four nested workflows need 16

  bool begin_object();
  bool begin_array();
  // The key of the next member; false at the end of the object and after a failure.
  bool next_member(std::string_view& key);
  bool next_element(std::size_t index);
  // Ends an object or array after its last member: true unless there was a failure.
  bool leave();
  bool push(JsonType type, std::string_view wanted);
  void name_step(std::string_view name) { path_[steps_ - 1].name = name; }
  template <class Names>
  bool unknown_member(std::string_view key, Names names, std::size_t count) {
    if (unknown_ == Unknown::skip) return skip();
    std::vector<std::string_view> known(count);
    for (std::size_t i = 0; i < count; ++i) known[i] = names(i);
    return fail_unknown(key, known);
  }
  bool fail_unknown(std::string_view key, std::span<const std::string_view> known);
  bool fail_too_many(std::size_t limit);
  bool fail_syntax(std::string_view what, std::size_t at);
  bool fail_bad();  // reports the syntax error
  bool fail_type(std::string_view wanted);
  std::string label() const;  // the end of the path, for messages

  const JsonToken& next() const { return tape_.tokens[next_]; }
  std::string_view slice(const JsonToken& token) const {
    return text_.substr(token.begin, token.end - token.begin);
  }
  std::string_view decoded(const JsonToken& string) const;
  bool skip_value();
  bool decode_string(std::string& out);

  std::string_view text_;
  JsonTape tape_;
  std::size_t next_ = 0;  // the token to read; never beyond the last
  Unknown unknown_;
  std::size_t steps_ = 0;
  std::array<Step, kMaxTypedDepth> path_{};
  std::optional<Error> error_;
};

// Checks that the text is one well-formed JSON value, within kMaxJsonDepth, in valid UTF-8.
// Errors: invalid_argument with `field`.
Result<void> check_json(std::string_view field, std::string_view text);

// What a program wrote as a value: `text` if it is JSON, else the text as a string. Errors:
// invalid_argument with `field`: JSON with a value that must not become a text (JsonTape::unfit).
Result<std::string> json_or_text(std::string_view field, std::string_view text);

// The start of `text`, at most `limit` bytes, without cutting a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t limit);

// The known name that a misspelt one most likely means: at most two letters apart; nullptr = none.
// Points into `known`. Takes |name| × |known| steps for each, so cut a long name first.
const std::string_view* nearest_name(std::string_view name,
                                     std::span<const std::string_view> known);

bool is_utf8(std::string_view text);

// "text" with quotes, escaped; bytes that are not UTF-8 become U+FFFD, so that the document stays
// JSON.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::int64_t value);
void append_json_number(std::string& out, double value);
// As format_wall_time and format_duration, with quotes.
void append_json_time(std::string& out, WallTime t);

// Writes objects and arrays with the commas right:
//   JsonWriter w(out);
//   w.begin_object().key("id").number(42).key("tags").begin_array().string("a").end_array()
//    .end_object();
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  // `name` is a constant field name: it is not escaped.
  JsonWriter& key(std::string_view name) {
    if (comma_) out_ += ',';
    comma_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
    return *this;
  }
  JsonWriter& string(std::string_view text) {
    separate();
    append_json_string(out_, text);
    return *this;
  }
  JsonWriter& number(std::int64_t value) {
    separate();
    append_json_number(out_, value);
    return *this;
  }
  JsonWriter& real(double value) {
    separate();
    append_json_number(out_, value);
    return *this;
  }
  JsonWriter& time(WallTime t) {
    separate();
    append_json_time(out_, t);
    return *this;
  }
  JsonWriter& duration(Duration d) { return string(format_duration(d)); }
  // Whole milliseconds, rounded up; null for kForever.
  JsonWriter& milliseconds(Duration d) {
    if (d == kForever) return null();
    return number(d.count() / 1000 + (d.count() % 1000 > 0 ? 1 : 0));
  }
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  // A JSON value, as it is.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
  }

 private:
  void separate() {
    if (comma_) out_ += ',';
    comma_ = true;
  }
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    comma_ = true;
    return *this;
  }
  std::string& out_;
  bool comma_ = false;
};

}  // namespace mainspring
