// The statements of tokens and of the audit.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct AccessStatements {
  explicit AccessStatements(std::string_view schema);
};

}  // namespace mainspring::pg
