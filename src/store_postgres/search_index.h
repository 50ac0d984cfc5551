// The statements of the index of searchable paths, and of the dead letter by fingerprints.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct SearchStatements {
  explicit SearchStatements(std::string_view schema);
  Statement queues, remove, add, due, step;
  Statement indexed, dead_counts;  // reads
};

}  // namespace mainspring::pg
