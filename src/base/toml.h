// toml++ as this program uses it: without its exceptions, and with its asserts as errors.
//
// The library asserts, also in releases, on some damaged files, and has undefined behaviour for
// some non-ASCII letters outside of texts: parse_toml() turns both into errors.
#pragma once

namespace mainspring {
struct BrokenToml {};  // thrown by an assert of the library, caught by parse_toml()
constexpr void toml_assert(bool condition) {
  if (!condition) throw BrokenToml();
}
}  // namespace mainspring

#define TOML_ASSERT(condition) ::mainspring::toml_assert(static_cast<bool>(condition))
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

inline constexpr std::size_t kMaxTomlBytes = 1 << 20;

// Returns whether every non-ASCII byte is in a text or a comment, and none is a control character.
inline bool is_plain_toml(std::string_view text) {
  char inside = 0;  // the quote of the text, '#', or 0
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) return false;
    if (c >= 0x80 && inside == 0) return false;
    if (c == '\n') {
      inside = 0;
    } else if (inside == 0 && (c == '"' || c == '\'' || c == '#')) {
      inside = text[i];
    } else if (inside == '"' && c == '\\') {
      ++i;
    } else if (inside == text[i] && inside != '#') {
      inside = 0;
    }
  }
  return true;
}

// Returns whether line `number`, from 1, ends inside a string that began on it.
inline bool is_open_string(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) {
    const std::size_t end = text.find('\n');
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  char inside = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (inside == 0 && text[i] == '#') return false;
    if (inside == 0 && (text[i] == '"' || text[i] == '\'')) {
      inside = text[i];
    } else if (inside == '"' && text[i] == '\\') {
      ++i;
    } else if (inside == text[i]) {
      inside = 0;
    }
  }
  return inside != 0;
}

// Errors: invalid_argument, with the file and the line if known; too_large.
inline Result<toml::table> parse_toml(std::string_view text, std::string_view file) {
  const std::string name(file);
  if (text.size() > kMaxTomlBytes) {
    return Error{ErrorCode::too_large, name + ": more than 1 MiB"};
  }
  if (!is_plain_toml(text)) {
    return invalid("", name +
                           ": not TOML: control characters, or letters beyond ASCII outside of "
                           "texts and comments");
  }
  try {
    toml::parse_result parsed = toml::parse(text, file);
    if (parsed) return std::move(parsed).table();
    const auto line = parsed.error().source().begin.line;
    // The library reports the end of the line as a control character inside the string.
    const std::string why = is_open_string(text, line) ? "a string is not closed on this line"
                                                       : std::string(parsed.error().description());
    return invalid("", name + ":" + std::to_string(line) + ": not TOML: " + why);
  } catch (const BrokenToml&) {
    return invalid("", name + ": not TOML");
  }
}

}  // namespace mainspring
