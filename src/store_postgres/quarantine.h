// Statements on quarantined and released jobs.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct QuarantineStatements {
  explicit QuarantineStatements(std::string_view schema);
  Statement mark, enter, leave, forget, first, next_release, is_taken;
};

}  // namespace mainspring::pg
