// Lines of `enqueue --many`: jobs as JSON, one per line, into requests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/operations.h"

namespace mainspring::cli {

struct LineDefaults {
  std::string queue;  // of lines that have none; "" = every line must have one
  std::string kind;
};

// At most so many bytes of lines go into one request.
inline constexpr std::size_t kRequestBytes = 512 << 10;

// Empty lines are skipped. Every line is checked before anything is sent. Errors:
// invalid_argument and too_large, with file and line.
Result<std::vector<Enqueue>> requests_of_lines(std::string_view file, std::string_view text,
                                               const LineDefaults& defaults);

}  // namespace mainspring::cli
