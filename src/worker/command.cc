// Splits commands into words without a shell.
#include <fmt/format.h>

#include "worker/exec.h"

namespace mainspring {
namespace {

Error bad_command(std::string_view text, std::string_view rule) {
  return invalid("exec", fmt::format("command \"{}\": {}", text.substr(0, 200), rule));
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;  // ' or " while inside, else 0
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') return bad_command(text, "must not contain a NUL byte");
    if (c == '\\' && quote != '\'') {
      const char next = i + 1 < text.size() ? text[i + 1] : 0;
      if (next == 0)
        return bad_command(text, "ends in a backslash, which must be before something");
      const bool escapes = quote == 0 || next == '"' || next == '\\';
      if (escapes) ++i;
      word += escapes ? next : c;
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (!is_blank(c)) {
      word += c;
      in_word = true;
    } else if (in_word) {
      words.push_back(std::move(word));
      word.clear();
      in_word = false;
    }
  }
  if (quote != 0) return bad_command(text, fmt::format("a {} is not closed", quote));
  if (in_word) words.push_back(std::move(word));
  if (words.empty() || words[0].empty()) return bad_command(text, "must name a program");
  return words;
}

}  // namespace mainspring
