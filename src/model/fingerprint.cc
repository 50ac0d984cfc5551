// Finds the variable parts of an error message and masks them.
#include "model/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/mutant.h"
#include "env/digest.h"

namespace mainspring {
namespace {

constexpr std::size_t kHexFrom = 8;  // digits; a shorter run may be a word

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The length of the quoted text at the start of `text`, with its quotes; 0 = none.
std::size_t quoted(std::string_view text, char before) {
  const char quote = text.front();
  if (quote != '"' && quote != '\'' && quote != '`') return 0;
  if (quote == '\'' && (is_letter(before) || is_digit(before))) return 0;  // it's
  const std::size_t end = text.find(quote, 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

// The length of the number, hex number or UUID at the start of `text`; 0 = none. A digit within a
// word belongs to the word: utf8, x86.
std::size_t skip_number(std::string_view text) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && is_hex(text[2])) {
    std::size_t end = 2;
    while (end < text.size() && is_hex(text[end])) ++end;
    return end;
  }
  std::size_t end = 0, hex = 0;
  bool decimal = false;
  while (end < text.size() && (is_hex(text[end]) || (text[end] == '-' && hex >= kHexFrom))) {
    if (text[end] != '-') ++hex;
    decimal = decimal || is_digit(text[end]);
    ++end;
  }
  while (end > 0 && text[end - 1] == '-') --end;
  const bool whole = end == text.size() || !is_letter(text[end]);
  if (hex >= kHexFrom && decimal && whole) return end;
  end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  const bool time = end > 0 && end + 1 < text.size() && text[end] == 'T' && is_digit(text[end + 1]);
  if (time) ++end;  // 2026-01-31T09:00:00Z
  while (time && end < text.size() && is_digit(text[end])) ++end;
  return end;
}

}  // namespace

std::string mask_error(std::string_view message) {
  message = message.substr(0, kMaxMaskedBytes);
  std::string out;
  char before = ' ';
  while (!message.empty()) {
    const char c = message.front();
    const bool word = is_letter(before) || is_digit(before);
    std::size_t masked = quoted(message, before);
    if (masked == 0 && is_hex(c) && !word) masked = skip_number(message);
    if (masked > 0) {
      out += '*';
      before = message[masked - 1];
      message.remove_prefix(masked);
      continue;
    }
    before = c;
    message.remove_prefix(1);
    if (!is_blank(c)) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string telling_line(std::string_view error) {
  constexpr std::string_view kTraceback = "Traceback (most recent call last):";
  constexpr std::string_view kFrame = "  File \"";
  const std::string_view first = error.substr(0, error.find('\n'));
  const std::size_t frame = error.rfind(kFrame);
  const bool traceback =
      frame != std::string_view::npos && error.find("\", line ", frame) != std::string_view::npos;
  if (!traceback) return std::string(first);
  // The exception is the first unindented line after the last frame.
  std::string_view exception;
  for (std::size_t at = error.find('\n', frame); at != std::string_view::npos;) {
    const std::size_t end = error.find('\n', at + 1);
    const std::string_view line = error.substr(at + 1, end == error.npos ? end : end - at - 1);
    if (!line.empty() && !is_blank(line.front())) {
      exception = line;
      break;
    }
    at = end;
  }
  if (exception.empty()) return std::string(first);
  const std::size_t begin = std::min(first.find(kTraceback), first.find(kFrame));
  std::string out(begin == std::string_view::npos ? std::string_view() : first.substr(0, begin));
  return out.append(exception);
}

std::string fingerprint_of(const Job& dead) {
  std::string text = dead.kind;
  text += '\0';
  text += mask_error(dead.reason);
  text += '\0';
  text += MS_MUTANT(fingerprint_of_numbers) ? dead.description : mask_error(dead.description);
  if (dead.description.size() > kMaxMaskedBytes) {
    // The last line of a traceback names the error; it is not masked above.
    const std::string telling = telling_line(dead.description);
    if (!dead.description.starts_with(telling)) text += mask_error(telling);
  }
  return to_hex(sha256(text)).substr(0, kFingerprintBytes);
}

std::int64_t fingerprint_number(std::string_view fingerprint) {
  std::uint64_t number = 0;
  std::from_chars(fingerprint.data(), fingerprint.data() + fingerprint.size(), number, 16);
  return static_cast<std::int64_t>(number);
}

std::string fingerprint_text(std::int64_t number) {
  return fmt::format("{:016x}", static_cast<std::uint64_t>(number));
}

Result<void> check_fingerprint(std::string_view field, std::string_view text) {
  const bool good = text.size() == kFingerprintBytes &&
                    std::all_of(text.begin(), text.end(),
                                [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
  if (good) return {};
  return invalid(std::string(field),
                 fmt::format("{} \"{}\": must be {} hex digits, as `mainspring dead groups` prints "
                             "them",
                             field, text.substr(0, 64), kFingerprintBytes));
}

}  // namespace mainspring
