// The statements on sessions, and on the lines of jobs that wait for their turn.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct SessionStatements {
  explicit SessionStatements(std::string_view schema);
  Statement lock, lock_free, read, of_jobs, next_in_line, update, save_state, read_state, renew,
      remove, insert_line, delete_line, next_token, count_held, next_free, ended_leases, begin_anew,
      prune, waiting_lines, waiting_sessions, queues_with_heads, held_turns, idle_sessions, show,
      list;
  // One job, into the hands of the holder of its session; and one of the line, of an accepted one.
  Statement claim_turn, claim_head;
};

}  // namespace mainspring::pg
