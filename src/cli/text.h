// Characters of UTF-8 text as a terminal shows them.
#pragma once

#include <cstddef>
#include <string_view>

namespace mainspring::cli {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // of its sequence
  bool valid = false;     // false: one byte that begins no well-formed sequence
};

// The first character of `text`, which is not empty.
Character first_character(std::string_view text);

// Columns of a terminal: 0 for combining marks, 2 for wide characters such as CJK and emoji,
// else 1.
std::size_t columns_of(char32_t code);

// Whether a terminal acts on the character instead of showing it: control characters of ASCII and
// of U+0080 to U+009F, line separators, and the controls of text direction.
bool is_control(char32_t code);

}  // namespace mainspring::cli
