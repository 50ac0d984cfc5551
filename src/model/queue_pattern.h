// Patterns of queues in claims: "tenant/*" is every queue with the prefix "tenant/", now or later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "model/access.h"

namespace mainspring {

// Queues of a pattern that one claim examines.
inline constexpr std::size_t kMaxPatternQueues = 1000;

inline bool is_pattern(std::string_view queue) {
  return queue.ends_with('*');
}
// The text before the asterisk.
inline std::string_view prefix_of(std::string_view pattern) {
  return pattern.substr(0, pattern.size() - 1);
}
// `pattern` may be the name of a queue. Queues of the engine fit no pattern.
bool fits_pattern(std::string_view pattern, std::string_view queue);
// Whether a queue can fit both.
bool overlap(std::string_view a, std::string_view b);
// As check_name, or a prefix of a name and an asterisk. Errors: invalid_argument.
Result<void> check_queue_or_pattern(std::string_view field, std::string_view text);
// The patterns and names that together fit the queues of `pattern` that `within` allows.
std::vector<std::string> allowed_part(std::string_view pattern, const Within& within);

}  // namespace mainspring
