// Read statements, for connections of their own.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct ReadStatements {
  explicit ReadStatements(std::string_view schema);
  Statement begin_snapshot, end_snapshot;
  // one job
  Statement get_job, get_jobs, last_id, created_from;
  // Pages of jobs. `candidates_…` return their number, up to $2, and the newest below $1, at most
  // $4.
  Statement queue_names, list_window, window_end, list_ids, candidates_dead, candidates_running,
      candidates_ready, candidates_ready_of, candidates_due, candidates_waiting,
      candidates_quarantined;
  Statement queues, line_before, quarantined_before, due_by_hour;
  // audit
  Statement audit_ends, audit_rising, audit_falling, audit_marks;
};

}  // namespace mainspring::pg
