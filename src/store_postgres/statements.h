// Statements of a batch on jobs, queues and dependent rows.
#pragma once

#include "store_postgres/access_statements.h"
#include "store_postgres/connection.h"
#include "store_postgres/read_statements.h"
#include "store_postgres/schedule_statements.h"

namespace mainspring::pg {

// The transaction, and the record that it was committed.
struct BatchStatements {
  explicit BatchStatements(std::string_view schema);
  Statement begin, plan_by_keys, clock, begin_quietly, commit, roll_back, mark_batch, hold, give_up,
      await_batch, find_batch;
};

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

// Tables that follow from the state of a job.
struct ReadyStatements {
  explicit ReadyStatements(std::string_view schema);
  Statement insert_ready, delete_ready, insert_due, delete_due, insert_expiring, delete_expiring,
      insert_leased, delete_leased, insert_finished, insert_dead, delete_dead, insert_deferred,
      delete_deferred, insert_job_counts, insert_errors, delete_jobs;
};

// Fields that few jobs have.
struct ExtraStatements {
  explicit ExtraStatements(std::string_view schema);
  Statement upsert_reasons, upsert_results, upsert_progress, upsert_checkpoints, forget_extras,
      upsert_warnings, upsert_wish, select_wish, select_progress;
};

// Keys, and simple jobs of many requests.
struct EnqueueStatements {
  explicit EnqueueStatements(std::string_view schema);
  Statement select_idempotency, claim_idempotency, drop_idempotency, insert_idempotency, key_in_use,
      take_unique, claim_unique, set_unique, let_unique_go, enqueue_available, enqueue_simple,
      enqueue_packs;
};

// Claims, completions and renewals.
struct ClaimStatements {
  explicit ClaimStatements(std::string_view schema);
  Statement claim_one_queue, claim_queues, find_claimed, checkpoints, complete_simple, renew_simple;
};

// Jobs that were enqueued together: see packs.cc.
struct PackStatements {
  explicit PackStatements(std::string_view schema);
  Statement claim_packs, hold_packs, undo_packs, enter_line;
};

// Limits of queues.
struct LimitStatements {
  explicit LimitStatements(std::string_view schema);
  Statement claim_limited, lock_limits, read_limits, update_meter, due_openings;
};

// The scheduler's steps.
struct StepStatements {
  explicit StepStatements(std::string_view schema);
  Statement due_jobs, due_queues, expiring_jobs, leased_rows, finished_rows, delete_finished,
      update_finished, delete_idempotency, prune_uniques, dead_jobs, fold_job_counts;
};

// The data that this node has copies of.
struct AgendaStatements {
  explicit AgendaStatements(std::string_view schema);
  Statement first_due, first_expiring, first_prune, first_leased, totals, versions, keep_setting,
      available, find_move;
};

// This node and the others.
struct NodeStatements {
  explicit NodeStatements(std::string_view schema);
  Statement durability, write_probe, health, node_number, lock_nodes, node_joins, nodes_alive,
      node_beats, others_say, waiting_queues, node_leaves, drop_leased, reset_jobs, nothing_lost,
      wake, lengthen_jobs;
};

struct Statements : BatchStatements,
                    CatalogStatements,
                    JobStatements,
                    ReadyStatements,
                    ExtraStatements,
                    EnqueueStatements,
                    ClaimStatements,
                    PackStatements,
                    LimitStatements,
                    StepStatements,
                    AgendaStatements,
                    NodeStatements {
  explicit Statements(std::string_view schema)
      : BatchStatements(schema),
        CatalogStatements(schema),
        JobStatements(schema),
        ReadyStatements(schema),
        ExtraStatements(schema),
        EnqueueStatements(schema),
        ClaimStatements(schema),
        PackStatements(schema),
        LimitStatements(schema),
        StepStatements(schema),
        AgendaStatements(schema),
        NodeStatements(schema) {}
};

}  // namespace mainspring::pg
