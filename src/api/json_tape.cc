// RapidJSON's reader and the handler that records the tape.
#include "api/json_tape.h"

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <set>

#include "api/shapes.h"
#include "api/unescaped_run.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxDocumentBytes = UINT32_MAX;
constexpr std::size_t kBytesPerTokenGuess = 8;
constexpr std::size_t kMaxTokensGuess = 64 * 1024;

// Rules for values: JsonTape::unfit.
constexpr std::string_view kTooBig = "must be within 1.8e308, the range of a double";
constexpr std::string_view kNoNumber = "must be a number; JSON has no NaN and no Infinity";
constexpr std::string_view kLoneSurrogate = "must not have half of a surrogate pair";
constexpr std::string_view kNoUtf8 = "must be UTF-8";
constexpr std::string_view kTwice = "given twice";

constexpr unsigned kFlags = rapidjson::kParseValidateEncodingFlag |
                            rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag;

// RapidJSON takes "\udc00" for a character of its own; in UTF-8 it would begin with ED A0 to ED BF.
bool has_lone_surrogate(std::string_view decoded) {
  for (std::size_t at = 0; (at = decoded.find('\xed', at)) != std::string_view::npos; ++at) {
    if (at + 1 < decoded.size() && static_cast<unsigned char>(decoded[at + 1]) >= 0xa0) return true;
  }
  return false;
}

// RapidJSON's UTF-8, which takes plain ASCII eight bytes at a time instead of one. On batches of
// jobs with 200 bytes of args this takes a third off the time of decoding a request.
struct Utf8 : rapidjson::UTF8<> {
  template <class Out>
  static bool Validate(rapidjson::MemoryStream& in, Out& out) {
    // (The reader also compiles its in-situ half, whose output has no Push; it never runs.)
    if constexpr (requires { out.Push(1u); }) {
      const char* const start = in.src_;
      const char* p = start;
      for (std::size_t run = 8; run == 8 && in.end_ - p >= 8; p += run) run = unescaped_run(p);
      if (p != start) {
        const auto length = static_cast<std::size_t>(p - start);
        std::memcpy(out.Push(static_cast<rapidjson::SizeType>(length)), start, length);
        in.src_ = p;
        return true;
      }
    }
    return rapidjson::UTF8<>::Validate(in, out);
  }
};

// Longer integers, and numbers with an exponent, can be beyond the range of a double.
constexpr std::size_t kMaxSurelyFiniteDigits = 300;
constexpr std::size_t kMaxSurelyFiniteBytes = 4;  // 9e99

// The first and the last four bytes of a text that has as many.
std::uint64_t ends_of(std::string_view text) {
  std::uint32_t first = 0, last = 0;
  std::memcpy(&first, text.data(), sizeof first);
  std::memcpy(&last, text.data() + text.size() - sizeof last, sizeof last);
  return std::uint64_t{first} << 32 | last;
}

// Whether one of eight bytes is e or E.
bool has_e(std::uint64_t bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  const std::uint64_t zero_if_e = (bytes | 0x20 * kOnes) ^ 'e' * kOnes;
  return ((zero_if_e - kOnes) & ~zero_if_e & 0x80 * kOnes) != 0;
}

bool is_surely_finite(std::string_view number) {
  if (number.size() <= kMaxSurelyFiniteBytes) return true;
  if (number.size() <= 8) return !has_e(ends_of(number));
  return number.size() <= kMaxSurelyFiniteDigits &&
         std::none_of(number.begin(), number.end(), [](char c) { return (c | 0x20) == 'e'; });
}

bool is_finite(std::string_view number) {
  double value = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (problem != std::errc::result_out_of_range) return true;
  // Out of range is also what is as good as 0, as in 1e-999 and 0e999.
  const std::size_t e = number.find_first_of("eE");
  const bool small = e != std::string_view::npos && number[e + 1] == '-';
  return small || number.substr(0, e).find_first_of("123456789") == std::string_view::npos;
}

// Whether `text`, which begins with a digit, is a number in the grammar of JSON.
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    at = std::min(text.find_first_not_of("0123456789", at), text.size());
    return at != begin;
  };
  const auto is = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (is("0") ? ++at, false : !digits()) return false;
  if (is(".") && (++at, !digits())) return false;
  if (is("eE")) {
    if (++at, is("+-")) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

// RapidJSON refuses some numbers within the range of a double and takes some beyond it. So numbers
// that could be too big are replaced by 1e00…0 of the same length, and is_finite() decides.
std::string with_small_numbers(std::string text) {
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++at;
    if (in_string || c < '0' || c > '9') continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size());
    if (const std::string_view number = std::string_view(text).substr(at, end - at);
        !is_surely_finite(number) && is_number(number)) {
      text.replace(at + 1, end - at - 1, "e" + std::string(end - at - 2, '0'));
    }
    at = end - 1;
  }
  return text;
}

// Between two tokens.
bool is_between(char c) {
  return c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool is_container(const JsonToken& token) {
  return token.type == JsonType::object || token.type == JsonType::array;
}

std::string_view decoded(const JsonTape& tape, std::string_view text, const JsonToken& string) {
  if (string.escaped) return tape.unescaped[string.link];
  return text.substr(string.begin + 1, string.end - string.begin - 2);
}

// The path of the value that follows the tape's tokens; of its object, if a key follows.
std::string path_of_next(const JsonTape& tape, std::string_view text) {
  std::string path;
  const std::vector<JsonToken>& tokens = tape.tokens;
  // Containers that are not closed have no link: each is the last child of the one around it.
  for (std::size_t i = 0; i < tokens.size() && is_container(tokens[i]);) {
    std::size_t children = 0, last = 0, next = i + 1;
    while (next < tokens.size() && !(is_container(tokens[next]) && tokens[next].link == 0)) {
      last = next;
      next = is_container(tokens[next]) ? tokens[next].link : next + 1;
      ++children;
    }
    if (tokens[i].type == JsonType::array) {
      path += '[' + std::to_string(children) + ']';
    } else if (children % 2 == 1) {
      if (!path.empty()) path += '.';
      path += decoded(tape, text, tokens[last]);
    }
    i = next;
  }
  return path;
}

// The token of the first key that repeats an earlier one of the object whose tokens begin at
// `first` and end the tape; 0 = none.
std::size_t repeated_key(const JsonTape& tape, std::string_view text, std::size_t first) {
  constexpr std::size_t kMaxComparedInPairs = 8;
  const std::vector<JsonToken>& tokens = tape.tokens;
  std::array<std::string_view, kMaxComparedInPairs> few;
  std::set<std::string_view> many;
  std::size_t count = 0;
  for (std::size_t i = first; i < tokens.size(); ++count) {
    const std::string_view key = decoded(tape, text, tokens[i]);
    if (count < few.size()) {
      const auto end = few.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::find(few.begin(), end, key) != end) return i;
      few[count] = key;
    } else {
      if (many.empty()) many.insert(few.begin(), few.end());
      if (!many.insert(key).second) return i;
    }
    i = is_container(tokens[i + 1]) ? tokens[i + 1].link : i + 2;
  }
  return 0;
}

// The keys of one open object, as bits of their hashes: a bit that is set twice means that a key
// may be repeated. Without it no key needs to be compared with another.
struct KeyBits {
  std::array<std::uint64_t, 4> seen;
  bool maybe_twice;

  void add(std::string_view key) {
    const std::size_t size = key.size();
    std::uint64_t mix = size;
    if (size >= 4) {  // its ends
      mix ^= ends_of(key);
    } else if (size > 0) {
      const auto byte = [&](std::size_t at) {
        return std::uint64_t{static_cast<unsigned char>(key[at])};
      };
      mix ^= byte(0) << 32 | byte(size / 2) << 16 | byte(size - 1);
    }
    const std::uint64_t hash = mix * 0x9e3779b97f4a7c15U >> 56;
    std::uint64_t& bits = seen[hash / 64];
    const std::uint64_t bit = std::uint64_t{1} << hash % 64;
    maybe_twice |= (bits & bit) != 0;
    bits |= bit;
  }
};

class TapeWriter : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TapeWriter> {
 public:
  TapeWriter(std::string_view text, JsonValues values, const rapidjson::MemoryStream& stream,
             JsonTape& tape)
      : text_(text), exact_(values == JsonValues::exact), stream_(stream), tape_(tape) {}

  bool Null() { return scalar(JsonType::null); }
  bool Bool(bool) { return scalar(JsonType::boolean); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) {
    scalar(JsonType::number);
    const JsonToken& token = tape_.tokens.back();
    const std::string_view number(text_.data() + token.begin, token.end - token.begin);
    if (is_surely_finite(number) || is_finite(number)) return true;
    tape_.beyond = true;
    return !exact_ || refuse(kTooBig);
  }
  bool String(const char* decoded, rapidjson::SizeType length, bool) {
    scalar(JsonType::string);
    JsonToken& token = tape_.tokens.back();
    // Every escape is longer than what it stands for.
    if (token.end - token.begin == length + 2) return true;
    if (has_lone_surrogate({decoded, length})) return refuse(kLoneSurrogate);
    token.escaped = true;
    token.link = static_cast<std::uint32_t>(tape_.unescaped.size());
    tape_.unescaped.emplace_back(decoded, length);
    return true;
  }
  bool Key(const char* decoded, rapidjson::SizeType length, bool copy) {
    if (!String(decoded, length, copy)) return false;
    // Of the text: what `decoded` points to has just been written byte by byte, and slow to load.
    const JsonToken& token = tape_.tokens.back();
    keys_[depth_ - 1].maybe_twice |= token.escaped;
    keys_[depth_ - 1].add({text_.data() + token.begin + 1, token.end - token.begin - 2});
    return true;
  }
  // The iterative parser reports a bracket before it consumes it.
  bool StartObject() {
    if (!open(JsonType::object)) return false;
    keys_[depth_ - 1] = {};
    return true;
  }
  bool StartArray() { return open(JsonType::array); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  // The start of the next token, or of invalid text.
  std::uint32_t next_begin() const {
    std::size_t at = last_end_;
    while (at < text_.size() && is_between(text_[at])) ++at;
    return static_cast<std::uint32_t>(at);
  }
  std::size_t stopped_at() const { return stopped_at_; }
  const JsonToken& refused() const { return refused_; }

 private:
  std::uint32_t tell() const { return static_cast<std::uint32_t>(stream_.Tell()); }
  // RapidJSON's position is right after it.
  bool scalar(JsonType type) {
    const std::uint32_t begin = next_begin();
    last_end_ = tell();
    tape_.tokens.push_back({begin, last_end_, 0, type, false});
    return true;
  }
  bool open(JsonType type) {
    const std::uint32_t at = tell();
    if (depth_ == open_.size()) {
      tape_.too_deep = true;
      stopped_at_ = at;
      return false;
    }
    open_[depth_++] = static_cast<std::uint32_t>(tape_.tokens.size());
    last_end_ = at + 1;
    tape_.tokens.push_back({at, last_end_, 0, type, false});
    return true;
  }
  bool close() {
    const std::uint32_t at = tell();
    last_end_ = at + 1;
    const std::uint32_t first = open_[--depth_];
    if (exact_ && tape_.tokens[first].type == JsonType::object && keys_[depth_].maybe_twice) {
      const std::size_t twice = repeated_key(tape_, text_, first + 1);
      if (twice != 0) return refuse_key(twice);
    }
    tape_.tokens.push_back({at, last_end_, 0, JsonType::end, false});
    JsonToken& opening = tape_.tokens[first];
    opening.end = last_end_;
    opening.link = static_cast<std::uint32_t>(tape_.tokens.size());
    return true;
  }

  // For the last token.
  bool refuse(std::string_view rule) {
    refused_ = tape_.tokens.back();
    tape_.tokens.pop_back();
    tape_.unfit = true;
    tape_.problem = rule;
    return false;
  }
  // Ends the tape before this key.
  bool refuse_key(std::size_t key) {
    const std::string name(decoded(tape_, text_, tape_.tokens[key]));
    tape_.tokens.resize(key + 1);
    refuse(kTwice);
    tape_.path = path_of_next(tape_, text_);
    if (!tape_.path.empty()) tape_.path += '.';
    tape_.path += name;
    return false;
  }

  const std::string_view text_;
  const bool exact_;
  const rapidjson::MemoryStream& stream_;
  JsonTape& tape_;
  std::uint32_t last_end_ = 0;                     // of the token or bracket before
  std::array<std::uint32_t, kMaxJsonDepth> open_;  // the first `depth_`, as in keys_
  std::array<KeyBits, kMaxJsonDepth> keys_;
  std::size_t depth_ = 0;
  std::size_t stopped_at_ = 0;
  JsonToken refused_;
};

constexpr std::string_view kControl = "an unescaped control character in a string";

// Our text for RapidJSON's error; `next` is the character at its position, 0 at the end. RapidJSON
// takes a NUL byte for the end: `at_end` distinguishes the two.
std::string_view in_words(rapidjson::ParseErrorCode code, char next, bool at_end) {
  switch (code) {
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "a bad \\u escape";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return next == '\\' ? "a bad escape" : kControl;
    case rapidjson::kParseErrorStringMissQuotationMark:
      return at_end ? "an unterminated string" : kControl;
    case rapidjson::kParseErrorStringInvalidEncoding:
      return "bytes that are not UTF-8";
    case rapidjson::kParseErrorNumberTooBig:
    case rapidjson::kParseErrorNumberMissFraction:
    case rapidjson::kParseErrorNumberMissExponent:
      return "a bad number";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "extra text after the end";
    default:
      break;
  }
  if (at_end) return "unexpected end";
  switch (code) {
    case rapidjson::kParseErrorObjectMissName:
      return "a missing member name";
    case rapidjson::kParseErrorObjectMissColon:
      return "no :";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "no , or }";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "no , or ]";
    default:
      return next == '-' ? "a bad number" : "no value";
  }
}

// The bytes of a word at `at` that other languages write for no number: 0 = none.
std::size_t no_number(std::string_view text, std::size_t at) {
  text.remove_prefix(at);
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"}) {
    if (!text.substr(sign).starts_with(word)) continue;
    const std::size_t end = sign + word.size();
    // Outside of arrays and objects the word must be the whole text, or it is a text.
    if (at == 0
            ? end == text.size()
            : end < text.size() && (is_between(text[end]) || text[end] == ']' || text[end] == '}'))
      return end;
  }
  return 0;
}

// Marks what RapidJSON stopped at as a value that is refused.
JsonToken refused_by_parser(JsonTape& tape, std::string_view text, const TapeWriter& writer,
                            const rapidjson::ParseResult& result) {
  const std::uint32_t at = writer.next_begin();
  JsonToken refused{at, at, 0, JsonType::bad, false};
  if (result.Code() == rapidjson::kParseErrorStringUnicodeSurrogateInvalid) {
    tape.problem = kLoneSurrogate;
    tape.unfit = true;
  } else if (result.Code() == rapidjson::kParseErrorStringInvalidEncoding) {
    tape.problem = kNoUtf8;
    tape.unfit = !tape.tokens.empty();
  } else if (result.Code() == rapidjson::kParseErrorValueInvalid) {
    refused.end += static_cast<std::uint32_t>(no_number(text, at));
    tape.problem = kNoNumber;
    tape.unfit = refused.end != at;
  }
  return refused;
}

// Adds the `bad` token with the error at the end.
void end_badly(JsonTape& tape, std::string_view text, const TapeWriter& writer,
               const rapidjson::ParseResult& result) {
  const rapidjson::ParseErrorCode code = result.Code();
  const bool stopped = code == rapidjson::kParseErrorTermination;
  JsonToken refused = stopped ? writer.refused() : refused_by_parser(tape, text, writer, result);
  if (tape.unfit) {
    if (tape.path.empty()) tape.path = path_of_next(tape, text);
    // A token of its own too, so that a reader of a number reports the number's range.
    if (refused.type == JsonType::number) tape.tokens.push_back(refused);
    if (refused.type == JsonType::string) refused.end = refused.begin;
    tape.tokens.push_back({refused.begin, refused.end, 0, JsonType::bad, false});
    return;
  }
  std::size_t at = stopped ? writer.stopped_at() : result.Offset();
  if (!stopped) {
    const bool at_end = at == text.size();
    // Half of a word, as in "tru": report its start.
    if (code == rapidjson::kParseErrorValueInvalid)
      at = std::min<std::size_t>(at, writer.next_begin());
    tape.problem = in_words(code, at < text.size() ? text[at] : '\0', at_end);
  }
  // A name without its colon, often one that lacks a quote, is no member.
  if (code == rapidjson::kParseErrorObjectMissColon) tape.tokens.pop_back();
  const auto where = static_cast<std::uint32_t>(at);
  tape.tokens.push_back({where, where, 0, JsonType::bad, false});
}

}  // namespace

JsonTape read_json_tape(std::string_view text, JsonValues values) {
  JsonTape tape;
  if (text.size() > kMaxDocumentBytes) {
    tape.problem = "more than 4 GiB";
    tape.tokens.push_back({0, 0, 0, JsonType::bad, false});
    return tape;
  }
  std::string changed;  // if it has numbers that RapidJSON does not take
  for (std::string_view parsed = text;; parsed = changed) {
    tape.tokens.reserve(std::min(text.size() / kBytesPerTokenGuess, kMaxTokensGuess) + 4);
    rapidjson::MemoryStream stream(parsed.data(), parsed.size());
    TapeWriter writer(text, values, stream, tape);
    rapidjson::GenericReader<Utf8, Utf8> reader;
    rapidjson::ParseResult result = reader.Parse<kFlags>(stream, writer);
    if (result.Code() == rapidjson::kParseErrorNumberTooBig && changed.empty()) {
      changed = with_small_numbers(std::string(text));
      tape = JsonTape();
      continue;
    }
    // A NUL byte between tokens ends the text for RapidJSON, but not for us.
    if (!result.IsError() && stream.Tell() != text.size())
      result.Set(rapidjson::kParseErrorDocumentRootNotSingular, stream.Tell());
    const bool empty =
        result.Code() == rapidjson::kParseErrorDocumentEmpty && result.Offset() == text.size();
    if (result.IsError() && !empty) {
      end_badly(tape, text, writer, result);
    } else {
      const auto end = static_cast<std::uint32_t>(text.size());
      tape.tokens.push_back({end, end, 0, JsonType::end, false});
    }
    return tape;
  }
}

}  // namespace mainspring
