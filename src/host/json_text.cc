// Byte order marks first, then one pass over the text.
#include "host/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mainspring {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// Code units of `width` bytes, in the order that the byte order mark gives.
std::optional<std::string> from_units(std::string_view bytes, std::size_t width, bool little) {
  if (bytes.size() % width != 0) return std::nullopt;
  const auto unit = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[at + (little ? width - 1 - i : i)]);
      value = (value << 8) | byte;
    }
    return value;
  };
  const auto is_high = [](std::uint32_t code) { return code >= 0xd800 && code < 0xdc00; };
  const auto is_low = [](std::uint32_t code) { return code >= 0xdc00 && code < 0xe000; };
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t code = unit(at);
    if (width == 2 && is_high(code)) {
      at += width;
      if (at >= bytes.size() || !is_low(unit(at))) return std::nullopt;
      code = 0x10000 + ((code - 0xd800) << 10) + (unit(at) - 0xdc00);
    } else if (is_high(code) || is_low(code) || code > 0x10ffff) {
      return std::nullopt;
    }
    append_utf8(out, code);
  }
  return out;
}

Result<std::string> in_utf8(std::string_view bytes) {
  using namespace std::string_view_literals;
  struct Mark {
    std::string_view bytes;
    std::size_t width;
    bool little;
    std::string_view name;
  };
  // The mark of UTF-32 begins with that of UTF-16.
  static constexpr Mark kMarks[] = {{"\xef\xbb\xbf"sv, 1, true, "UTF-8"},
                                    {"\xff\xfe\0\0"sv, 4, true, "UTF-32"},
                                    {"\0\0\xfe\xff"sv, 4, false, "UTF-32"},
                                    {"\xff\xfe"sv, 2, true, "UTF-16"},
                                    {"\xfe\xff"sv, 2, false, "UTF-16"}};
  for (const Mark& mark : kMarks) {
    if (!bytes.starts_with(mark.bytes)) continue;
    bytes.remove_prefix(mark.bytes.size());
    if (mark.width == 1) break;
    auto text = from_units(bytes, mark.width, mark.little);
    if (text) return std::move(*text);
    return invalid("", fmt::format("has the byte order mark of {}, but is not valid {}", mark.name,
                                   mark.name));
  }
  return std::string(bytes);
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : text_(text) {}

  Result<std::string> all() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        string();
      } else if (c == '/') {
        MS_TRY(comment());
      } else if (begins_name(c)) {
        name();
      } else if (is_digit(c) || c == '-') {
        number();
      } else {
        if (c == '}' || c == ']') drop_last_comma();
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  void string() {
    const char quote = text_[at_++];
    out_ += '"';
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        if (text_[at_] != '\'') out_ += c;  // \' is of Json.NET only
        out_ += text_[at_];
      } else if (c == '"') {
        out_ += "\\\"";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out_ += c;
      }
    }
    if (at_ == text_.size()) return;  // the parser says that its end is missing
    out_ += '"';
    ++at_;
  }

  Result<void> comment() {
    const std::string_view rest = text_.substr(at_);
    std::size_t size = 0;
    if (rest.starts_with("//")) {
      size = std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = rest.find("*/", 2);
      if (end == std::string_view::npos) return invalid("", "a comment has no end");
      size = end + 2;
    } else {
      out_ += '/';
      ++at_;
      return {};
    }
    for (std::size_t i = 0; i < size; ++i) out_ += rest[i] == '\n' ? '\n' : ' ';
    at_ += size;
    return {};
  }

  // A name without quotes; true, false and null stay as they are.
  void name() {
    std::size_t end = at_;
    while (end < text_.size() && (begins_name(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    while (end < text_.size() && is_blank(text_[end])) ++end;
    const bool quoted = end < text_.size() && text_[end] == ':';
    if (quoted) out_ += '"';
    out_ += word;
    if (quoted) out_ += '"';
  }

  void number() {
    while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_]) ||
                                  text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) {
      out_ += text_[at_++];
    }
  }

  void drop_last_comma() {
    const auto last = [&](std::size_t before) {
      while (before > 0 && is_blank(out_[before - 1])) --before;
      return before;  // the position after it; 0 = none
    };
    const std::size_t comma = last(out_.size());
    if (comma == 0 || out_[comma - 1] != ',') return;
    const std::size_t value = last(comma - 1);
    if (value == 0 || std::string_view("[{,").find(out_[value - 1]) != std::string_view::npos) {
      return;  // a comma without a value before it
    }
    out_[comma - 1] = ' ';
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> strict_json(std::string_view bytes) {
  MS_TRY_ASSIGN(const std::string text, in_utf8(bytes));
  return Rewriter(text).all();
}

}  // namespace mainspring
