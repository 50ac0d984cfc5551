// The only parser of paths. Matching, scope checks and plans use its result, so that no code parses
// a path a second time and differently.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring::http {

inline constexpr std::size_t kMaxSegments = 7;  // of any route without a {rest*}

// "/a/b%2Fc" has the segments "a" and "b/c".
struct Path {
  std::array<std::string, kMaxSegments> segments;    // decoded, once
  std::array<std::string_view, kMaxSegments> rests;  // from each segment to the end, not decoded
  std::size_t count = 0;
  bool longer = false;  // more than kMaxSegments
};

// Splits first and decodes then, so a "/" in a name is written %2F. Refuses paths that programs
// read in different ways: segments "." and "..", plain or escaped, backslashes, control characters,
// zero bytes, invalid UTF-8, invalid escapes. Errors: invalid_argument.
Result<Path> read_path(std::string_view raw);

}  // namespace mainspring::http
