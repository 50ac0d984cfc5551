// FNV-1a, 64 bit: a hash that is the same in every program, version and machine, for keys that
// nobody gains by forging.
//
// Source: http://www.isthe.com/chongo/tech/comp/fnv/
#pragma once

#include <cstdint>
#include <string_view>

namespace mainspring {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;

// Of `text` behind what `hash` is of.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Two with different beginnings, for those that tell many texts apart.
inline constexpr std::uint64_t kOtherFnvBasis = 0x9e3779b97f4a7c15u;

}  // namespace mainspring
