// The statements of schedules and of leases by name.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct ScheduleStatements {
  explicit ScheduleStatements(std::string_view schema);
  // leases by name
  Statement lock_leases, share_leases, insert_lease, grant_lease, renew_lease, save_lease,
      sweep_leases, forget_leases, measure_leases, begin_leases_anew, forget_leader, held_leases,
      read_lease, read_leases;
};

}  // namespace mainspring::pg
