// Secret: text that must not be printed: tokens, keys, passwords.
//
// It cannot be streamed, formatted, compared by accident or converted to a string implicitly, and
// its bytes are wiped when it is destroyed. To read it, call reveal(), which is easy to search for.
#pragma once

#include <fmt/core.h>
#include <strings.h>

#include <string>
#include <string_view>
#include <utility>

namespace mainspring {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret& other) = default;
  Secret(Secret&& other) noexcept : text_(other.text_) { other.wipe(); }
  Secret& operator=(const Secret& other) {
    if (this != &other) {
      wipe();
      text_ = other.text_;
    }
    return *this;
  }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      wipe();
      text_ = other.text_;
      other.wipe();
    }
    return *this;
  }
  ~Secret() { wipe(); }

  const std::string& reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  // Short texts are stored in the object itself, long ones on the heap: both are overwritten.
  void wipe() noexcept {
    text_.resize(text_.capacity());
    explicit_bzero(text_.data(), text_.size());
    text_.clear();
  }
  std::string text_;
};

// The URL with *** for its password, or for everything before the '@' if there is no ':'; unchanged
// if there is neither. For texts that are shown or logged; accepts texts that are not URLs too.
inline std::string without_password(std::string_view url) {
  const std::size_t slashes = url.find("//");
  const std::size_t begin = slashes == std::string_view::npos ? 0 : slashes + 2;
  // Everything up to the last '@' before the path may be a password: one with a '/' in it, which is
  // not a valid URL, is hidden too.
  const std::size_t at = url.rfind('@', url.find_first_of("?#", begin));
  if (at == std::string_view::npos || at < begin) return std::string(url);
  const std::size_t colon = url.substr(0, at).find(':', begin);
  const std::size_t from = colon == std::string_view::npos ? begin : colon + 1;
  return std::string(url.substr(0, from)) + "***" + std::string(url.substr(at));
}

}  // namespace mainspring

// Formatting a Secret is a compile error that leads here.
template <class Char>
struct fmt::formatter<mainspring::Secret, Char> {
  formatter() = delete;
};
