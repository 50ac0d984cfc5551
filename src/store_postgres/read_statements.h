// The statements of reads, for connections of their own.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct ReadStatements {
  explicit ReadStatements(std::string_view schema);
};

}  // namespace mainspring::pg
