// The one reader of paths: what it answers is matched, asked for scopes and used; nobody reads a
// path a second time and perhaps another way.
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
  std::array<std::string_view, kMaxSegments> rests;  // from a segment on, not decoded
  std::size_t count = 0;
  bool longer = false;  // than kMaxSegments
};

// Splits first and decodes then, so that a "/" in a name is written %2F. Of what programs read in
// more than one way it takes none: segments "." and "..", written out or escaped, backslashes,
// controls, zero bytes, what is not UTF-8, an escape that is none. Errors: invalid_argument.
Result<Path> read_path(std::string_view raw);

}  // namespace mainspring::http
