// Converts lines of `enqueue --many` (one JSON job per line) to requests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/operations.h"

namespace mainspring::cli {

struct LineDefaults {
  std::string queue;  // of lines without one; "" = every line must have one
  std::string kind;
};

// Maximum bytes of lines in one request.
inline constexpr std::size_t kRequestBytes = 512 << 10;

// Empty lines are skipped. Every line is checked before anything is sent. Errors:
// invalid_argument and too_large, with file and line.
Result<std::vector<Enqueue>> requests_of_lines(std::string_view file, std::string_view text,
                                               const LineDefaults& defaults);

}  // namespace mainspring::cli
