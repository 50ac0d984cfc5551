// SQL texts of the read statements.
#include "store_postgres/read_statements.h"

namespace mainspring::pg {

// The whole record, in the column order of read_job().
#define MS_JOB_WITH(args)                                                                     \
  "j.id, q.name, k.name, j.state, j.priority, j.run_at, j.attempt, j.max_attempts, j.token, " \
  "j.version, j.started_at, j.finished_at, j.expires_at, j.created_at, " args                 \
  ", j.timeout, "                                                                             \
  "j.tags, j.headers, j.correlation_id, j.reply_to, j.unique_key, j.worker, j.flags, "        \
  "e.progress_value, e.progress_text, e.reason, e.description, j.follow_ups, j.session, "     \
  "j.reply_session, coalesce(j.trigger_depth, 0), j.limit_key, j.deferred IS TRUE, "          \
  "CASE WHEN j.state NOT IN (4, 6, 7) THEN j.quarantined END, coalesce(j.lost, 0)"
#define MS_JOB MS_JOB_WITH("j.args")
// For lists: large args are omitted unless `whole` is true; then their size is returned.
#define MS_LISTED(whole)                                                            \
  MS_JOB_WITH("CASE WHEN " whole                                                    \
              "::boolean OR octet_length(j.args) <= 65536 THEN j.args ELSE '' END") \
  ", CASE WHEN " whole                                                              \
  "::boolean OR octet_length(j.args) <= 65536 THEN 0 ELSE octet_length(j.args) END"
#define MS_JOINS                                                                              \
  " JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id = j.kind LEFT JOIN " \
  "$schema.extras e ON e.id = j.id "
// $3 queue, $4 kind, $5 tag, $6 states, one bit each, $7 queues that the caller may see; NULL =
// any. $8: only quarantined jobs.
#define MS_FILTER                                                                                \
  "($3::text IS NULL OR queue = (SELECT id FROM $schema.queues WHERE name = $3)) AND ($4::text " \
  "IS NULL OR kind = (SELECT id FROM $schema.kinds WHERE name = $4)) AND ($5::text IS NULL OR "  \
  "$5 = ANY(tags)) AND ($6::bigint IS NULL OR (1::bigint << state::integer) & $6 <> 0) AND "     \
  "($7::bigint[] IS NULL OR queue = "                                                            \
  "ANY($7)) AND (NOT $8::boolean OR (quarantined IS NOT NULL AND state NOT IN (4, 6, 7)))"
// Created from, and before; NULL = any time.
#define MS_CREATED(from, before)                                           \
  " AND (" from "::bigint IS NULL OR created_at >= " from ") AND (" before \
  "::bigint IS NULL OR created_at < " before ")"
#define MS_WHOLE                                                                                \
  "SELECT " MS_JOB ", e.checkpoint, e.result, x.*, e.warning FROM $schema.jobs j" MS_JOINS      \
  "CROSS JOIN LATERAL (SELECT array_agg(attempt::bigint ORDER BY seq), array_agg(at ORDER BY "  \
  "seq), array_agg(ran_for ORDER BY seq), array_agg(worker ORDER BY seq), array_agg(message "   \
  "ORDER BY seq), array_agg(coalesce(program_end, '') ORDER BY seq) FROM $schema.errors WHERE " \
  "job = j.id AND j.flags & 8 <> 0) x WHERE "
// Candidates among the ids that `from` selects.
#define MS_CANDIDATES(from)                                                                 \
  "WITH c AS MATERIALIZED (" from                                                           \
  " LIMIT $2) SELECT (SELECT count(*) FROM c), ARRAY(SELECT DISTINCT id FROM c WHERE id < " \
  "$1 ORDER BY id DESC LIMIT $4)"
// The newest entries of a table of few jobs, which are not counted.
#define MS_NEWEST(table)                                  \
  "SELECT 0::bigint, ARRAY(SELECT id FROM $schema." table \
  " WHERE id < $1 ORDER BY id DESC "                      \
  "LIMIT $4)"
#define MS_RECORD \
  "SELECT seq, at, who, origin, action, object, before, after, hash FROM $schema.audit "
#define MS_RECORD_FILTER                                                                       \
  "WHERE seq >= $1 AND seq <= $2 AND ($3::text IS NULL OR who = $3) AND ($4::text IS NULL OR " \
  "action = $4) AND ($5::text IS NULL OR object = $5) "

namespace {
// The oldest job by priority, each by one index lookup.
constexpr std::string_view kQueues =
    "SELECT q.name, q.paused, q.retention_completed, q.retention_dead, t.*, o.run_at, "
    "coalesce(q.limits, q.settings), q.opens_at, coalesce(z.n, 0), q.meter, CASE WHEN "
    "q.limits LIKE '%\"costs\":{%' THEN ARRAY(SELECT k.name || '=' || count(*) FROM "
    "$schema.running_keys b JOIN $schema.jobs j ON j.id = b.id JOIN $schema.kinds k ON k.id = "
    "j.kind WHERE b.queue = q.id AND b.key = '' AND j.state = 3 GROUP BY k.name) END, q.pause FROM "
    "$schema.queues q LEFT JOIN (SELECT queue, sum(waiting)::bigint, sum(scheduled)::bigint, "
    "sum(available)::bigint AS available, sum(running)::bigint, sum(completed)::bigint, "
    "sum(retryable)::bigint, sum(cancelled)::bigint, sum(dead)::bigint, "
    "sum(enqueued)::bigint AS enqueued, sum(pruned)::bigint, sum(expired)::bigint FROM "
    "$schema.job_counts "
    "WHERE queue <> 0 GROUP BY queue) t ON t.queue = q.id LEFT JOIN LATERAL (SELECT "
    "least(min(r.run_at), (SELECT h.run_at FROM $schema.held_back h JOIN $schema.jobs j ON "
    "j.id = h.id WHERE h.queue = q.id AND j.state = 2 AND j.run_at = h.run_at ORDER BY "
    "h.run_at LIMIT 1)) AS run_at FROM generate_series(0, 9) AS p(priority) LEFT JOIN LATERAL "
    "((SELECT run_at FROM $schema.ready WHERE queue = q.id AND priority = p.priority ORDER BY "
    "run_at LIMIT 1) UNION ALL (SELECT b.run_at FROM $schema.packs b WHERE b.queue = q.id AND "
    "b.priority = p.priority AND EXISTS (SELECT 1 FROM unnest(b.ids) AS i(id) JOIN $schema.jobs j "
    "ON j.id = i.id WHERE j.state = 2 AND j.version = 1) ORDER BY b.run_at LIMIT 1)) r ON true "
    "WHERE t.available > 0) o ON true LEFT JOIN (SELECT z.queue, "
    "count(*) AS n FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = z.id AND "
    "j.quarantined IS NOT NULL AND j.state NOT IN (4, 6, 7) GROUP BY z.queue) z ON z.queue = "
    "q.id WHERE NOT q.removed OR coalesce(t.enqueued, 0) <> q.empty_at ORDER BY q.name";
}  // namespace

ReadStatements::ReadStatements(std::string_view s)
    : begin_snapshot(s, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
      end_snapshot(s, "COMMIT"),
      get_job(s, MS_WHOLE "j.id = $1"),
      get_jobs(s, MS_WHOLE "j.id = ANY($1::bigint[])"),
      last_id(s, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM $schema.job_ids"),
      created_from(s,
                   "SELECT id, created_at FROM $schema.jobs WHERE id >= $1 ORDER BY id LIMIT 1"),
      queue_names(s, "SELECT id, name FROM $schema.queues"),
      list_window(s, "SELECT " MS_LISTED("$10")
                     " FROM (SELECT * FROM (SELECT * FROM $schema.jobs WHERE id < $1 ORDER BY id "
                     "DESC LIMIT $9) w WHERE " MS_FILTER MS_CREATED("$11", "$12")
                     " ORDER BY id DESC LIMIT $2) j" MS_JOINS "ORDER BY j.id DESC"),
      window_end(s,
                 "SELECT id FROM $schema.jobs WHERE id < $1 ORDER BY id DESC OFFSET $2::bigint - 1 "
                 "LIMIT 2"),
      list_ids(s, "SELECT " MS_LISTED("$9")
                  " FROM (SELECT * FROM $schema.jobs WHERE id = ANY($1::bigint[]) AND " MS_FILTER
                  MS_CREATED("$10", "$11")
                  " ORDER BY id DESC LIMIT $2) j" MS_JOINS "ORDER BY j.id DESC"),
      candidates_dead(s, MS_NEWEST("dead_letter")),
      candidates_running(s, MS_CANDIDATES("SELECT unnest(ids) AS id FROM $schema.leased")),
      candidates_ready(s, MS_CANDIDATES("(SELECT id FROM $schema.ready UNION SELECT unnest(ids) "
                                        "FROM $schema.packs UNION SELECT id FROM "
                                        "$schema.held_back)")),
      candidates_ready_of(
          s, MS_CANDIDATES("(SELECT r.id FROM $schema.queues q, LATERAL (SELECT id "
                           "FROM $schema.ready WHERE queue = q.id UNION SELECT "
                           "unnest(ids) FROM $schema.packs WHERE queue = q.id "
                           "UNION SELECT id FROM $schema.held_back WHERE queue = q.id) r WHERE "
                           "q.name = $3)")),
      candidates_due(s, MS_CANDIDATES("(SELECT id FROM $schema.due UNION ALL SELECT id FROM "
                                      "$schema.quarantine)")),
      candidates_waiting(s, MS_CANDIDATES("(SELECT job AS id FROM $schema.schedule_jobs UNION "
                                          "ALL SELECT id FROM $schema.session_jobs UNION ALL "
                                          "SELECT id FROM $schema.deferred UNION ALL "
                                          "SELECT head FROM $schema.sessions WHERE look_at <> 0)")),
      candidates_quarantined(s, MS_NEWEST("quarantine")),
      queues(s, kQueues),
      line_before(
          s,
          "SELECT count(*) FROM ((SELECT id FROM $schema.ready WHERE queue = (SELECT id "
          "FROM $schema.queues WHERE name = $1) AND (priority, run_at, id) < ($2, $3, $4) "
          "LIMIT $5) UNION (SELECT j.id FROM $schema.packs b, unnest(b.ids) AS i(id) JOIN "
          "$schema.jobs j ON j.id = i.id WHERE b.queue = (SELECT id FROM $schema.queues "
          "WHERE name = $1) AND (b.priority, b.run_at, b.first) < ($2, $3, $4) AND i.id < "
          "CASE WHEN (b.priority, b.run_at) = ($2, $3) THEN $4::bigint ELSE "
          "9223372036854775807 END AND j.state = 2 AND j.version = 1 LIMIT $5) LIMIT $5) "
          "l"),
      quarantined_before(
          s,
          "SELECT count(*) FROM (SELECT 1 FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = "
          "z.id AND j.quarantined IS NOT NULL WHERE z.queue = (SELECT id FROM $schema.queues WHERE "
          "name = $1) AND z.id <> $4 AND (j.state IN (0, 2, 3) OR (j.state = 5 AND (j.priority, "
          "j.run_at, j.id) < ($2, $3, $4))) LIMIT $5) l"),
      due_by_hour(
          s,
          "SELECT q.name, d.hour, count(*) FROM (SELECT id, run_at, greatest(run_at, $1) / "
          "3600000000 AS hour FROM $schema.due WHERE run_at < $2 ORDER BY run_at, id LIMIT "
          "$3::bigint) d LEFT JOIN $schema.jobs j ON j.id = d.id AND j.state IN (1, 5) AND "
          "j.run_at = d.run_at LEFT JOIN $schema.queues q ON q.id = j.queue GROUP BY q.name, "
          "d.hour"),
      audit_ends(s, "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM $schema.audit"),
      audit_rising(s, MS_RECORD MS_RECORD_FILTER "ORDER BY seq LIMIT $6"),
      audit_falling(s, MS_RECORD MS_RECORD_FILTER "ORDER BY seq DESC LIMIT $6"),
      audit_marks(s, "SELECT id, seq, hash FROM $schema.audit_marks ORDER BY id") {}

#undef MS_JOB
#undef MS_JOB_WITH
#undef MS_LISTED
#undef MS_JOINS
#undef MS_FILTER
#undef MS_CREATED
#undef MS_WHOLE
#undef MS_CANDIDATES
#undef MS_NEWEST
#undef MS_RECORD
#undef MS_RECORD_FILTER

}  // namespace mainspring::pg
