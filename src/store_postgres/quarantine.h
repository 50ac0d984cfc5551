// Quarantine: the statements of what waits there, and of who is released.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct QuarantineStatements {
  explicit QuarantineStatements(std::string_view schema);
  Statement mark, enter, leave, forget, first, next_release, is_taken;
};

}  // namespace mainspring::pg
