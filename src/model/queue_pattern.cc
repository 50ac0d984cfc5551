// Patterns of queues: see queue_pattern.h.
#include "model/queue_pattern.h"

#include <fmt/format.h>

#include "mainspring/job.h"
#include "model/callback.h"

namespace mainspring {

bool fits_pattern(std::string_view pattern, std::string_view queue) {
  if (!is_pattern(pattern)) return queue == pattern;
  return queue.starts_with(prefix_of(pattern)) && !queue.starts_with(kReservedQueues);
}

bool overlap(std::string_view a, std::string_view b) {
  if (!is_pattern(b)) return fits_pattern(a, b);
  if (!is_pattern(a)) return fits_pattern(b, a);
  return prefix_of(a).starts_with(prefix_of(b)) || prefix_of(b).starts_with(prefix_of(a));
}

Result<void> check_queue_or_pattern(std::string_view field, std::string_view text) {
  if (text == "*") return {};
  if (!is_pattern(text)) return check_name(field, text);
  if (check_name(field, prefix_of(text))) return {};
  return invalid(std::string(field),
                 fmt::format("{} \"{}\": must be a name, or the beginning of a name and one * at "
                             "the end",
                             field, text.substr(0, 64)));
}

std::vector<std::string> allowed_part(std::string_view pattern, const Within& within) {
  if (within.has(pattern)) return {std::string(pattern)};
  std::vector<std::string> out;
  for (const Scope& scope : within.scopes->list()) {
    if (scope.verb == within.verb && overlap(pattern, scope.pattern)) out.push_back(scope.pattern);
  }
  return out;
}

}  // namespace mainspring
