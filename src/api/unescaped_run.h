// Counts the bytes of a JSON string that need no check, eight at a time, for reading and writing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mainspring {

// The first of eight bytes that ends a run without escapes (a quote, a backslash, a control
// character, not ASCII), 8 if none does.
inline std::size_t unescaped_run(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, 8);
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  const auto has_zero = [](std::uint64_t v) { return (v - kOnes) & ~v & kHigh; };
  const std::uint64_t stops = (word & kHigh) | has_zero(word ^ (kOnes * '"')) |
                              has_zero(word ^ (kOnes * '\\')) |
                              ((word - kOnes * 0x20) & ~word & kHigh);
  static_assert(std::endian::native == std::endian::little);
  return stops == 0 ? 8 : static_cast<std::size_t>(std::countr_zero(stops)) / 8;
}

}  // namespace mainspring
