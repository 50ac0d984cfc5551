// Statements on sessions, and on the jobs that wait in them.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct SessionStatements {
  explicit SessionStatements(std::string_view schema);
  Statement lock, lock_free, read, of_jobs, next_in_line, update, save_state, read_state, renew,
      remove, insert_line, delete_line, next_token, count_held, next_free, ended_leases, start_over,
      prune, waiting_lines, waiting_sessions, queues_with_heads, held_heads, idle_sessions, show,
      list;
  // Claims one job for the holder of its session; and the head of an accepted session.
  Statement claim_held, claim_head;
};

}  // namespace mainspring::pg
