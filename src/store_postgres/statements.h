// The statements of a batch on jobs, queues and what follows from them.
#pragma once

#include "store_postgres/access_statements.h"
#include "store_postgres/connection.h"
#include "store_postgres/read_statements.h"
#include "store_postgres/schedule_statements.h"

namespace mainspring::pg {

// A transaction, and what says that it was committed.
struct BatchStatements {
  explicit BatchStatements(std::string_view schema);
  Statement begin, plan_by_keys, clock, begin_quietly, commit, roll_back, mark_batch, hold, give_up,
      await_batch, find_batch;
};

// Queues and kinds.
struct CatalogStatements {
  explicit CatalogStatements(std::string_view schema);
  Statement load_queues, insert_queue, update_queue, lock_queue, find_removable, mark_removed,
      forget_queues, load_kinds, insert_kind, raise_version;
};

// Rows of jobs.
struct JobStatements {
  explicit JobStatements(std::string_view schema);
  Statement take_jobs, take_free_jobs, existing_jobs, new_ids, last_id, insert_jobs, update_jobs,
      replace_bodies, edit_bodies, read_followed;
};

// What follows from the state of a job.
struct LineStatements {
  explicit LineStatements(std::string_view schema);
  Statement insert_ready, delete_ready, insert_due, delete_due, insert_expiring, delete_expiring,
      insert_leased, delete_leased, insert_finished, insert_dead, delete_dead, insert_deferred,
      delete_deferred, insert_tallies, insert_errors, delete_jobs;
};

// What few jobs have.
struct ExtraStatements {
  explicit ExtraStatements(std::string_view schema);
  Statement upsert_reasons, upsert_results, upsert_progress, upsert_checkpoints, upsert_warnings,
      upsert_wish, select_wish, select_progress;
};

// Keys, and plain jobs of many requests.
struct EnqueueStatements {
  explicit EnqueueStatements(std::string_view schema);
  Statement select_idempotency, claim_idempotency, drop_idempotency, insert_idempotency,
      take_unique, claim_unique, set_unique, let_unique_go, enqueue_available, enqueue_plain,
      enqueue_bundles;
};

// Claims, completions and renewals.
struct ClaimStatements {
  explicit ClaimStatements(std::string_view schema);
  Statement claim_one_queue, claim_queues, find_claimed, checkpoints, complete_plain, renew_plain;
};

// Jobs that were enqueued together: see bundles.cc.
struct BundleStatements {
  explicit BundleStatements(std::string_view schema);
  Statement claim_bundles, hold_bundles, undo_bundles, enter_line;
};

// Limits of queues.
struct LimitStatements {
  explicit LimitStatements(std::string_view schema);
  Statement claim_limited, lock_limits, read_limits, update_meter, due_openings;
};

// What the scheduler does.
struct StepStatements {
  explicit StepStatements(std::string_view schema);
  Statement due_jobs, due_queues, expiring_jobs, leased_rows, finished_rows, delete_finished,
      update_finished, delete_idempotency, prune_uniques, dead_jobs, fold_tallies;
};

// What this node has copies of.
struct AgendaStatements {
  explicit AgendaStatements(std::string_view schema);
  Statement first_due, first_expiring, first_prune, first_leased, totals, versions, keep_setting,
      available, find_move;
};

// This node among the others.
struct NodeStatements {
  explicit NodeStatements(std::string_view schema);
  Statement durability, write_probe, health, node_number, lock_nodes, node_joins, nodes_alive,
      node_beats, others_say, waiting_queues, node_leaves, drop_leased, begin_jobs_anew,
      nothing_lost, wake, lengthen_jobs;
};

struct Statements : BatchStatements,
                    CatalogStatements,
                    JobStatements,
                    LineStatements,
                    ExtraStatements,
                    EnqueueStatements,
                    ClaimStatements,
                    BundleStatements,
                    LimitStatements,
                    StepStatements,
                    AgendaStatements,
                    NodeStatements {
  explicit Statements(std::string_view schema)
      : BatchStatements(schema),
        CatalogStatements(schema),
        JobStatements(schema),
        LineStatements(schema),
        ExtraStatements(schema),
        EnqueueStatements(schema),
        ClaimStatements(schema),
        BundleStatements(schema),
        LimitStatements(schema),
        StepStatements(schema),
        AgendaStatements(schema),
        NodeStatements(schema) {}
};

}  // namespace mainspring::pg
