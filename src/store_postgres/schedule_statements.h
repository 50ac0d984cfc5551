// The statements of schedules and of leases by name.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct ScheduleStatements {
  explicit ScheduleStatements(std::string_view schema);
};

}  // namespace mainspring::pg
