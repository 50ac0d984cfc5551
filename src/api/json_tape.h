// The tape of a JSON document: its tokens in order, recorded by RapidJSON and read by JsonReader.
//
//   {"a":[1,"x\n"]}    0 object, link 7
//                      1 string "a"
//                      2 array, link 6: the token after its end
//                      3 number
//                      4 string, escaped: unescaped[link 0] is x and a new line
//                      5 end of the array
//                      6 end of the object
//                      7 end of the document
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainspring {

enum class JsonType : std::uint8_t { object, array, string, number, boolean, null, end, bad };

// 16 bytes for each value, key, and end of an object or array.
struct JsonToken {
  std::uint32_t begin = 0;  // its bytes in the text, with quotes or brackets
  std::uint32_t end = 0;
  // For an object or array: the index of the token after its end, 0 if it has none. For an escaped
  // string: its index in `unescaped`.
  std::uint32_t link = 0;
  // `end` closes an object, an array, or the document; `bad` is always the last.
  JsonType type = JsonType::end;
  bool escaped = false;
};

struct JsonTape {
  // Never empty. The last is `end` if the document is valid (or empty), else `bad`, at the position
  // where RapidJSON stopped; the tokens before it are valid.
  std::vector<JsonToken> tokens;
  std::vector<std::string> unescaped;
  std::string_view problem;  // of the `bad` token, as in "no , or }"
  bool too_deep = false;     // the `bad` token is the bracket that opens level kMaxJsonDepth + 1
  // The `bad` token is a value that other readers of JSON change or refuse (see JsonValues), and
  // `problem` is the rule. `path` is its path in the document: "args.list[3]".
  bool unfit = false;
  std::string path;
  bool beyond = false;  // JsonValues::any: has a number beyond the range of a double
};

// `exact`, for everything that is accepted: no number beyond the range of a double, and no member
// twice. `any`, for answers and what a store has: as it is.
enum class JsonValues : std::uint8_t { exact, any };

// Checks the whole text: grammar, UTF-8, whole surrogate pairs, kMaxJsonDepth, `values`, nothing
// after the document. The result holds no reference to the text.
JsonTape read_json_tape(std::string_view text, JsonValues values = JsonValues::exact);

}  // namespace mainspring
