// FNV-1a, 64 bit: a hash that is the same in every program, version and machine. Not for keys that
// an attacker could profit from forging.
//
// Source: http://www.isthe.com/chongo/tech/comp/fnv/
#pragma once

#include <cstdint>
#include <string_view>

namespace mainspring {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;

// Continues `hash` with `text`.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// A second start value: two hashes together distinguish many texts.
inline constexpr std::uint64_t kOtherFnvBasis = 0x9e3779b97f4a7c15u;

}  // namespace mainspring
