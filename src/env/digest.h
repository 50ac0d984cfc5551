// Digests: SHA-256, and comparisons in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mainspring {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view bytes);
// HMAC-SHA-256.
Digest hmac_sha256(std::string_view key, std::string_view bytes);
// Without a branch or a memory access that depends on the content.
bool equal_in_constant_time(const Digest& a, const Digest& b);

std::string to_hex(const Digest& digest);  // 64 characters
std::optional<Digest> digest_from_hex(std::string_view hex);
inline std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace mainspring
