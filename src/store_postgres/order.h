// Statements of claims from queues with ageing or fair keys.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct OrderStatements {
  explicit OrderStatements(std::string_view schema);
  Statement fronts, held_lines, held_of_lines, fair_keys, write_fair_keys, drop_fair_keys;
};

}  // namespace mainspring::pg
