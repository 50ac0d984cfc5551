// Statements on schedules and named locks (leases).
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct ScheduleStatements {
  explicit ScheduleStatements(std::string_view schema);
  // named locks (leases)
  Statement lock_leases, share_leases, insert_lease, grant_lease, renew_lease, save_lease,
      sweep_leases, forget_leases, measure_leases, reset_leases, forget_leader, held_leases,
      read_lease, read_leases;
  // schedules
  Statement lock_schedules, lock_schedules_by_id, insert_schedule, save_schedule, define_schedule,
      count_schedules, delete_schedule;
  // their ledgers
  Statement select_fired, insert_ticks, delete_ticks, read_ledger;
  // their live jobs
  Statement links_of, jobs_of, insert_links, end_links, links_to_settle, delete_links, begin_link,
      revive_link, guard_link, await_link;
  // the copy
  Statement snapshot, changed_schedules, all_schedules, removed_schedules, sum_links, all_links;
};

}  // namespace mainspring::pg
