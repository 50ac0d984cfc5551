// The order of jobs in queues with ageing or fair keys: the statements of their claims.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct OrderStatements {
  explicit OrderStatements(std::string_view schema);
  Statement fronts, held_lines, held_of_lines, turns, write_turns, drop_turns;
};

}  // namespace mainspring::pg
