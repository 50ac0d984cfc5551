// Reserved queues: names that start with "mainspring.".
#include "model/callback.h"

#include <fmt/format.h>

#include "base/mutant.h"

namespace mainspring {

Result<void> check_not_reserved(std::string_view field, std::string_view queue) {
  if (!queue.starts_with(kReservedQueues) || MS_MUTANT(reserved_queue_for_all)) return {};
  return invalid(std::string(field),
                 fmt::format("{} \"{}\": must not begin with {}, which is the engine's", field,
                             queue.substr(0, 64), kReservedQueues));
}

}  // namespace mainspring
