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
  // schedules
  Statement lock_schedules, lock_schedules_by_id, insert_schedule, save_schedule, define_schedule,
      count_schedules, delete_schedule;
  // their ledgers
  Statement select_fired, insert_ticks, delete_ticks, read_ledger;
  // their jobs that have not ended
  Statement ties_of, jobs_of, insert_ties, end_ties, ties_to_settle, delete_ties, begin_tie,
      revive_tie, guard_tie, await_tie;
  // the copy
  Statement snapshot, changed_schedules, all_schedules, removed_schedules, sum_ties, all_ties;
};

}  // namespace mainspring::pg
