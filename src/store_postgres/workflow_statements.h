// Statements on workflows, their rows, and the jobs of their steps.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct WorkflowStatements {
  explicit WorkflowStatements(std::string_view schema);
  // Statements that lock do so in the order of ids.
  Statement next_ids, lock_key, by_key, lock, lock_of_jobs, jobs, ended, fetch, page_up, page_down;
  Statement add, save, put, remove, put_jobs, remove_jobs;
  Statement live_of_failed, live_of, live_of_due, due, first_wake, first_finished, finished,
      let_children_go, prune_rows, prune;
  // For readers.
  Statement one, list, states, rows_between, row, queues_of, live_jobs;
};

}  // namespace mainspring::pg
