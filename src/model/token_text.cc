// The text of tokens: 256 bits in base64url. Source: RFC 4648, section 5.
#include "model/token_text.h"

#include <algorithm>
#include <string>

namespace mainspring {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

Secret make_token_text(Random& random) {
  std::string text(kTokenPrefix);
  std::uint64_t bits = 0;
  int left = 0;
  while (text.size() < kTokenBytes) {
    if (left < 6) {
      bits = random.next();
      left = 60;  // ten characters; the rest is unused
    }
    text += kAlphabet[bits & 63];
    bits >>= 6;
    left -= 6;
  }
  return Secret(std::move(text));
}

std::optional<Digest> digest_of_token(std::string_view text) {
  const bool could_be = text.size() == kTokenBytes && text.starts_with(kTokenPrefix) &&
                        text.find_first_not_of(kAlphabet, kTokenPrefix.size()) == text.npos;
  if (!could_be) return std::nullopt;
  return sha256(text);
}

}  // namespace mainspring
