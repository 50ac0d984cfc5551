// Statements that extend leases, for suspension and restart.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct StandstillStatements {
  explicit StandstillStatements(std::string_view schema);
  Statement extend_jobs, extend_sessions, extend_leases;  // $1 since, $2 gap, $3 now
  Statement allow_jobs, allow_sessions, allow_leases;     // $1 until, $2 now
  Statement keep_allowance, read_allowance, drop_allowance;
};

}  // namespace mainspring::pg
