// The statements of a batch on jobs, queues and what follows from them.
#pragma once

#include "store_postgres/access_statements.h"
#include "store_postgres/connection.h"
#include "store_postgres/read_statements.h"
#include "store_postgres/schedule_statements.h"

namespace mainspring::pg {

struct Statements {
  explicit Statements(std::string_view schema);
  Statement begin, clock, begin_quietly, commit, roll_back, mark_batch, give_up, await_batch,
      find_batch;
  // catalog
  Statement load_queues, insert_queue, update_queue, lock_queue, load_kinds, insert_kind,
      raise_version;
  // jobs in hand
  Statement take_jobs, new_ids, last_id, insert_jobs, update_jobs, replace_bodies, insert_ready,
      delete_ready, insert_due, delete_due, insert_expiring, delete_expiring, insert_leased,
      insert_finished, insert_dead, delete_dead, insert_tallies, insert_errors, delete_jobs;
  // extras
  Statement upsert_reasons, upsert_results, upsert_progress, upsert_checkpoints, upsert_wish,
      select_wish;
  // enqueue
  Statement select_idempotency, claim_idempotency, drop_idempotency, insert_idempotency,
      take_unique, claim_unique, set_unique, delete_unique, enqueue_plain;
  // claim
  Statement claim_one_queue, claim_queues, checkpoints;
  // finish
  Statement complete_plain, renew_plain;
  // steps
  Statement due_jobs, due_queues, expiring_jobs, leased_rows, finished_rows, delete_finished,
      update_finished, delete_idempotency, dead_jobs, fold_tallies;
  // agenda and copies
  Statement first_due, first_expiring, first_prune, first_leased, totals, versions, keep_setting,
      available, durability, lock_nodes, node_joins, nodes_alive, node_beats, waiting_queues,
      node_leaves, drop_leased, begin_jobs_anew;
};

}  // namespace mainspring::pg
