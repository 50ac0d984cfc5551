// SQL texts of the statements on workflows. Times in microseconds; arrays instead of many
// executions. Kinds of rows: 0 text (4: kTextStart), 1 spec, 2 state, 3 result, 6 live, 7 wake, 12
// child, 13 live_child (WorkflowRow). For packed workflows, "states" shows the live jobs: a running
// step (1) with a job.
#include "store_postgres/workflow_statements.h"

#include "workflow/step_rows.h"

namespace mainspring::pg {

static_assert(
    workflow::kTextStart == 4 && static_cast<int>(StepState::running) == 1 &&
    static_cast<int>(WorkflowRow::text) == 0 && static_cast<int>(WorkflowRow::spec) == 1 &&
    static_cast<int>(WorkflowRow::state) == 2 && static_cast<int>(WorkflowRow::result) == 3 &&
    static_cast<int>(WorkflowRow::live) == 6 && static_cast<int>(WorkflowRow::wake) == 7 &&
    static_cast<int>(WorkflowRow::child) == 12 && static_cast<int>(WorkflowRow::live_child) == 13);

namespace {

constexpr std::string_view kFetch =
    "SELECT u.workflow, u.kind, u.number, r.text FROM unnest($1::bigint[], $2::bigint[], "
    "$3::bigint[]) AS u(workflow, kind, number) LEFT JOIN $schema.workflow_rows r ON "
    "r.workflow = u.workflow AND r.kind = u.kind AND r.number = u.number";
#define MS_ADD                                                                             \
  "INSERT INTO $schema.workflows AS w (id, name, key, state, wake_at, finished_at, data) " \
  "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], "              \
  "$5::bigint[], $6::bigint[], $7::text[])"
constexpr std::string_view kSave = MS_ADD
    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, wake_at = excluded.wake_at, "
    "finished_at = excluded.finished_at, data = excluded.data";
constexpr std::string_view kPut =
    "INSERT INTO $schema.workflow_rows AS r (workflow, kind, number, text) SELECT * FROM "
    "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) ON CONFLICT (workflow, "
    "kind, number) DO UPDATE SET text = excluded.text";
constexpr std::string_view kRemove =
    "DELETE FROM $schema.workflow_rows r USING unnest($1::bigint[], $2::bigint[], "
    "$3::bigint[]) AS u(workflow, kind, number) WHERE r.workflow = u.workflow AND r.kind "
    "= u.kind AND r.number = u.number";
constexpr std::string_view kPutJobs =
    "INSERT INTO $schema.workflow_jobs (job, workflow, step, undo) SELECT job, "
    "workflow, step, undo <> 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], "
    "$4::bigint[]) AS u(job, workflow, step, undo)";
// The live jobs of packed workflows `w`, with the numbers of their steps.
#define MS_PACKED_LIVE                                                                           \
  "CROSS JOIN LATERAL json_array_elements(CASE WHEN w.data LIKE '%\"states\":[%' THEN "          \
  "w.data::json->'states' END) WITH ORDINALITY AS s(step, number) WHERE s.step->>'state' = '1' " \
  "AND s.step->>'job' IS NOT NULL"
constexpr std::string_view kLiveOfFailed =
    "WITH f(id) AS MATERIALIZED (SELECT DISTINCT j.workflow FROM $schema.workflow_jobs j WHERE "
    "j.job = ANY($1) AND NOT j.undo) SELECT l.text::bigint FROM f JOIN $schema.workflow_rows l ON "
    "l.workflow = f.id AND l.kind = 6 UNION ALL SELECT (s.step->>'job')::bigint FROM f JOIN "
    "$schema.workflows w ON w.id = f.id " MS_PACKED_LIVE;
// Includes jobs of the children that are cancelled with them.
constexpr std::string_view kLiveOf =
    "WITH RECURSIVE whole(id) AS (SELECT unnest($1::bigint[]) UNION SELECT c.text::bigint FROM "
    "whole w JOIN $schema.workflow_rows c ON c.workflow = w.id AND c.kind = 13) SELECT "
    "l.text::bigint FROM whole w JOIN $schema.workflow_rows l ON l.workflow = w.id AND l.kind = 6 "
    "UNION ALL SELECT (s.step->>'job')::bigint FROM whole h JOIN $schema.workflows w ON w.id = "
    "h.id " MS_PACKED_LIVE;
constexpr std::string_view kLiveOfDue =
    "WITH due(id, step) AS MATERIALIZED (SELECT d.workflow, n.step::bigint FROM "
    "$schema.workflow_rows d CROSS JOIN LATERAL unnest(string_to_array(d.text, ',')) AS n(step) "
    "WHERE d.workflow = ANY($1) AND d.kind = 7 AND d.number <= $2) SELECT l.text::bigint FROM due "
    "JOIN $schema.workflow_rows l ON l.workflow = due.id AND l.kind = 6 AND due.step IN (0, "
    "l.number) UNION SELECT (s.step->>'job')::bigint FROM due JOIN $schema.workflows w ON w.id = "
    "due.id " MS_PACKED_LIVE " AND due.step IN (0, s.number)";
#undef MS_PACKED_LIVE
constexpr std::string_view kFirstFinished =
    "SELECT min(f.at) FROM unnest($1::bigint[], $2::bigint[]) AS u(state, keep) "
    "CROSS JOIN LATERAL (SELECT w.finished_at + u.keep AS at FROM "
    "$schema.workflows w WHERE w.state = u.state AND w.finished_at IS NOT NULL "
    "ORDER BY w.finished_at LIMIT 1) f";
constexpr std::string_view kFinished =
    "SELECT f.id FROM unnest($1::bigint[], $2::bigint[]) AS u(state, keep) CROSS JOIN "
    "LATERAL (SELECT w.id FROM $schema.workflows w WHERE w.state = u.state AND "
    "w.finished_at IS NOT NULL AND w.finished_at <= $3 - u.keep ORDER BY w.finished_at "
    "LIMIT $4::bigint FOR UPDATE SKIP LOCKED) f LIMIT $4::bigint";

}  // namespace

#define MS_COLUMNS "w.id, w.name, w.key, w.state, w.wake_at, w.finished_at, w.data"
#define MS_WORKFLOW "SELECT " MS_COLUMNS " FROM $schema.workflows w "

namespace {
constexpr std::string_view kEnded =
    "SELECT " MS_COLUMNS
    ", j.job, j.workflow, j.step, j.undo FROM $schema.workflow_jobs j JOIN $schema.workflows w ON "
    "w.id = j.workflow WHERE j.job = ANY($1) ORDER BY w.id FOR UPDATE OF w";
}  // namespace

WorkflowStatements::WorkflowStatements(std::string_view s)
    : next_ids(s,
               "SELECT nextval('$schema.workflow_ids') FROM generate_series(1, $1::integer) UNION "
               "ALL SELECT nextval('$schema.job_ids') FROM generate_series(1, $2::integer)"),
      lock_key(s, "SELECT pg_advisory_xact_lock(hashtext('$schema.' || $1), hashtext($2))"),
      by_key(s, MS_WORKFLOW "WHERE w.name = $1 AND w.key = $2 ORDER BY w.id DESC LIMIT $3::bigint"),
      lock(s, MS_WORKFLOW "WHERE w.id = ANY($1) ORDER BY w.id FOR UPDATE OF w"),
      lock_of_jobs(s, MS_WORKFLOW
                   "WHERE w.id = ANY(ARRAY(SELECT j.workflow FROM $schema.workflow_jobs j WHERE "
                   "j.job = ANY($1) UNION ALL SELECT unnest($2::bigint[]))) ORDER BY w.id FOR "
                   "UPDATE OF w"),
      jobs(s, "SELECT job, workflow, step, undo FROM $schema.workflow_jobs WHERE job = ANY($1)"),
      ended(s, kEnded),
      fetch(s, kFetch),
      page_up(s,
              "SELECT number, text FROM $schema.workflow_rows WHERE workflow = $1 AND kind = "
              "$2::bigint AND number > $3 ORDER BY number LIMIT $4::bigint"),
      page_down(s,
                "SELECT number, text FROM $schema.workflow_rows WHERE workflow = $1 AND kind = "
                "$2::bigint AND number < $3 ORDER BY number DESC LIMIT $4::bigint"),
      add(s, MS_ADD),
      save(s, kSave),
      put(s, kPut),
      remove(s, kRemove),
      put_jobs(s, kPutJobs),
      remove_jobs(s, "DELETE FROM $schema.workflow_jobs WHERE job = ANY($1)"),
      live_of_failed(s, kLiveOfFailed),
      live_of(s, kLiveOf),
      live_of_due(s, kLiveOfDue),
      due(s,
          "SELECT id FROM $schema.workflows WHERE wake_at IS NOT NULL AND wake_at <= $1 ORDER BY "
          "wake_at LIMIT $2::bigint"),
      first_wake(s,
                 "SELECT wake_at FROM $schema.workflows WHERE wake_at IS NOT NULL ORDER BY wake_at "
                 "LIMIT 1"),
      first_finished(s, kFirstFinished),
      finished(s, kFinished),
      let_children_go(s,
                      "UPDATE $schema.workflows SET finished_at = $2 WHERE id = ANY(ARRAY(SELECT "
                      "number FROM $schema.workflow_rows WHERE workflow = ANY($1) AND kind = 12))"),
      prune_rows(s,
                 "DELETE FROM $schema.workflow_rows WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
                 "$schema.workflow_rows WHERE workflow = ANY($1) ORDER BY workflow, kind, number "
                 "LIMIT $2::bigint))"),
      prune(s,
            "DELETE FROM $schema.workflows w WHERE w.id = ANY($1) AND NOT EXISTS (SELECT 1 FROM "
            "$schema.workflow_rows r WHERE r.workflow = w.id)"),
      one(s, MS_WORKFLOW "WHERE w.id = $1"),
      list(s, MS_WORKFLOW "WHERE w.id < $1 ORDER BY w.id DESC LIMIT $2::bigint"),
      states(s,
             "SELECT number, text FROM $schema.workflow_rows WHERE workflow = $1 AND kind = 2 AND "
             "number > $2::bigint ORDER BY number LIMIT $3::bigint"),
      rows_between(s,
                   "SELECT kind, number, text FROM $schema.workflow_rows WHERE workflow = $1 AND "
                   "kind IN (1, 3) AND number BETWEEN $2 AND $3"),
      row(s,
          "SELECT text FROM $schema.workflow_rows WHERE workflow = $1 AND kind = $2::bigint AND "
          "number = $3"),
      queues_of(s,
                "SELECT workflow, text FROM $schema.workflow_rows WHERE workflow = ANY($1) AND "
                "kind = 0 AND number = $2"),
      live_jobs(s,
                "SELECT id, state, attempt, max_attempts, worker, started_at, timeout FROM "
                "$schema.jobs WHERE id = ANY($1)") {}

#undef MS_WORKFLOW
#undef MS_COLUMNS
#undef MS_ADD

}  // namespace mainspring::pg
