// RapidJSON's reader and the handler that records the tape.
#include "api/json_tape.h"

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "api/shapes.h"
#include "api/unescaped_run.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxDocumentBytes = UINT32_MAX;
constexpr std::size_t kBytesPerTokenGuess = 8;
constexpr std::size_t kMaxTokensGuess = 64 * 1024;

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

class TapeWriter : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TapeWriter> {
 public:
  TapeWriter(std::string_view text, const rapidjson::MemoryStream& stream, JsonTape& tape)
      : text_(text), stream_(stream), tape_(tape) {}

  bool Null() { return scalar(JsonType::null); }
  bool Bool(bool) { return scalar(JsonType::boolean); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) { return scalar(JsonType::number); }
  bool String(const char* decoded, rapidjson::SizeType length, bool) {
    scalar(JsonType::string);
    JsonToken& token = tape_.tokens.back();
    // Every escape is longer than what it stands for.
    if (token.end - token.begin == length + 2) return true;
    if (has_lone_surrogate({decoded, length})) {
      tape_.problem = "an unpaired surrogate";
      stopped_at_ = token.begin;
      tape_.tokens.pop_back();
      return false;
    }
    token.escaped = true;
    token.link = static_cast<std::uint32_t>(tape_.unescaped.size());
    tape_.unescaped.emplace_back(decoded, length);
    return true;
  }
  bool Key(const char* decoded, rapidjson::SizeType length, bool copy) {
    return String(decoded, length, copy);
  }
  // The iterative parser reports a bracket before it consumes it.
  bool StartObject() { return open(JsonType::object); }
  bool StartArray() { return open(JsonType::array); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  // The start of the next token, or of invalid text.
  std::uint32_t next_begin() const {
    const auto between = [](char c) {
      return c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
    };
    std::size_t at = last_end_;
    while (at < text_.size() && between(text_[at])) ++at;
    return static_cast<std::uint32_t>(at);
  }
  std::size_t stopped_at() const { return stopped_at_; }

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
    tape_.tokens.push_back({at, last_end_, 0, JsonType::end, false});
    JsonToken& opening = tape_.tokens[open_[--depth_]];
    opening.end = last_end_;
    opening.link = static_cast<std::uint32_t>(tape_.tokens.size());
    return true;
  }

  const std::string_view text_;
  const rapidjson::MemoryStream& stream_;
  JsonTape& tape_;
  std::uint32_t last_end_ = 0;  // of the token or bracket before
  std::array<std::uint32_t, kMaxJsonDepth> open_{};
  std::size_t depth_ = 0;
  std::size_t stopped_at_ = 0;
};

constexpr std::string_view kControl = "an unescaped control character in a string";

// Our text for RapidJSON's error; `next` is the character at its position, 0 at the end. RapidJSON
// takes a NUL byte for the end: `at_end` distinguishes the two.
std::string_view in_words(rapidjson::ParseErrorCode code, char next, bool at_end) {
  switch (code) {
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "a bad \\u escape";
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return "an unpaired surrogate";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return next == '\\' ? "a bad escape" : kControl;
    case rapidjson::kParseErrorStringMissQuotationMark:
      return at_end ? "an unterminated string" : kControl;
    case rapidjson::kParseErrorStringInvalidEncoding:
      return "bytes that are not UTF-8";
    case rapidjson::kParseErrorNumberTooBig:
      return "a number beyond what 64-bit floating point holds";
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

// Adds the `bad` token with the syntax error at the end.
void end_badly(JsonTape& tape, std::string_view text, const TapeWriter& writer,
               const rapidjson::ParseResult& result) {
  std::size_t at = result.Offset();
  const rapidjson::ParseErrorCode code = result.Code();
  if (code == rapidjson::kParseErrorTermination) {
    at = writer.stopped_at();
  } else {
    const bool at_end = at == text.size();
    // Half of a word, as in "tru": report its start.
    if (code == rapidjson::kParseErrorValueInvalid)
      at = std::min<std::size_t>(at, writer.next_begin());
    tape.problem = in_words(code, at < text.size() ? text[at] : '\0', at_end);
  }
  if (code == rapidjson::kParseErrorNumberTooBig) {
    // A separate token, so that a reader of a number reports the number's range.
    const std::size_t end = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size());
    tape.tokens.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end), 0,
                           JsonType::number, false});
  }
  // A name without its colon, often one that lacks a quote, is no member.
  if (code == rapidjson::kParseErrorObjectMissColon) tape.tokens.pop_back();
  const auto where = static_cast<std::uint32_t>(at);
  tape.tokens.push_back({where, where, 0, JsonType::bad, false});
}

}  // namespace

JsonTape read_json_tape(std::string_view text) {
  JsonTape tape;
  if (text.size() > kMaxDocumentBytes) {
    tape.problem = "more than 4 GiB";
    tape.tokens.push_back({0, 0, 0, JsonType::bad, false});
    return tape;
  }
  tape.tokens.reserve(std::min(text.size() / kBytesPerTokenGuess, kMaxTokensGuess) + 4);
  rapidjson::MemoryStream stream(text.data(), text.size());
  TapeWriter writer(text, stream, tape);
  rapidjson::GenericReader<Utf8, Utf8> reader;
  rapidjson::ParseResult result = reader.Parse<kFlags>(stream, writer);
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

}  // namespace mainspring
