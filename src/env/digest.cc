// SHA-256 by OpenSSL.
#include "env/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/assert.h"

namespace mainspring {

Digest sha256(std::string_view bytes) {
  Digest out{};
  unsigned int size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr);
  MS_ASSERT(ok == 1 && size == out.size(), "SHA-256 is there");
  return out;
}

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  Digest out{};
  unsigned int size = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  const void* const done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data,
                                bytes.size(), out.data(), &size);
  MS_ASSERT(done != nullptr && size == out.size(), "SHA-256 is there");
  return out;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string to_hex(const Digest& digest) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::optional<Digest> digest_from_hex(std::string_view hex) {
  const auto value = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Digest out{};
  if (hex.size() != 2 * out.size()) return std::nullopt;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = value(hex[2 * i]), low = value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return out;
}

}  // namespace mainspring
