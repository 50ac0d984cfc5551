// SQL texts: the two most frequent operations on sessions, each as one statement. They do the same
// as loaded_sessions.cc does in memory. Times in microseconds.
#include <string>

#include "store_postgres/columns.h"
#include "store_postgres/fast_path_sessions.h"

namespace mainspring::pg {
namespace {

// Each row finds its session by an index lookup: rows of common table expressions have no index.
// `first` marks the first job of its session in this batch. Parameters: those of the rows, then $26
// now, $27 node, $28 batch.
std::string session_enqueue_text() {
  return "WITH q AS MATERIALIZED (SELECT p.*, CASE WHEN sid IS NULL THEN state WHEN NOT begins OR "
         "(held AND state = 2) THEN 0 ELSE state END AS now FROM (SELECT "
         "i.*, s.id AS sid, s.token <> 0 AS held, i.first <> 0 AND s.head = 0 AND s.stop = 0 AS "
         "begins, "
         "CASE WHEN s.head <> 0 THEN (SELECT k.state FROM $schema.jobs k WHERE k.id = s.head) END "
         "AS head FROM (SELECT nextval('$schema.job_ids') AS id, v.* FROM (SELECT "
         "* FROM " +
         rows_text("n",
                   {"state", "flags", "priority", "run_at", "queue", "kind", "max_attempts",
                    "timeout", "first"},
                   {"args", "headers", "tags", "correlation_id", "reply_to", "session"}) +
         " ORDER BY n) AS v) AS i LEFT JOIN $schema.sessions s ON s.queue = i.queue AND s.key = "
         "i.session) AS p), "
         "j AS (INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, "
         "version, token, lease_until, lease, claimed_at, run_at, started_at, finished_at, "
         "expires_at, created_at, timeout, schedule, queue, kind, budget, correlation_id, "
         "reply_to, tags, headers, args, session) SELECT id, now, flags, priority, 0, "
         "max_attempts, 1, 0, 0, 0, 0, run_at, 0, 0, 0, $26, timeout, 0, queue, kind, "
         "max_attempts, correlation_id, reply_to, string_to_array(tags, E'\\x1f'), headers, args, "
         "session FROM q), "
         "l AS (INSERT INTO $schema.session_jobs (session, id) SELECT sid, id FROM q WHERE sid IS "
         "NOT NULL AND NOT begins), "
         "r AS (INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at, session) "
         "SELECT queue, priority, kind, run_at, id, 0, coalesce(sid, 0) FROM q WHERE now = 2), "
         "d AS (INSERT INTO $schema.due (run_at, id) SELECT run_at, id FROM q WHERE now = 1), "
         "u AS (UPDATE $schema.sessions s SET jobs = s.jobs + g.jobs, head = coalesce(g.head, "
         "s.head), first = least(s.first, g.line), prune_at = 0, changed_at = $26 FROM (SELECT "
         "sid, count(*) AS jobs, min(id) FILTER (WHERE begins) AS head, min(id) FILTER (WHERE NOT "
         "begins) AS line FROM q WHERE sid IS NOT NULL GROUP BY sid) AS g WHERE s.id = g.sid), "
         "a AS MATERIALIZED (SELECT array_agg(id ORDER BY n) AS ids, array_agg(now ORDER BY n) AS "
         "states FROM q), "
         "b AS MATERIALIZED (SELECT queue, count(*) AS enqueued, count(*) FILTER (WHERE now = 0) "
         "AS waiting, count(*) FILTER (WHERE now = 1) AS scheduled, count(*) FILTER (WHERE now = "
         "2) AS available, count(*) FILTER (WHERE now = 2 AND sid IS NOT NULL) AS heads, "
         "array_agg(session) FILTER (WHERE begins AND held AND state = 2) AS woken, "
         "coalesce(bool_or(head = 2 AND NOT held), false) AS passed, min(run_at) FILTER (WHERE now "
         "= 1) AS due "
         "FROM q GROUP BY queue), "
         "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, enqueued, waiting, "
         "scheduled, "
         "available, ids) SELECT $27, $28, $26, queue, enqueued, waiting, scheduled, available, "
         "CASE WHEN row_number() OVER () = 1 THEN (SELECT ids FROM a) END FROM b) "
         "SELECT CASE WHEN row_number() OVER () = 1 THEN (SELECT ids FROM a) END, CASE WHEN "
         "row_number() OVER () = 1 THEN (SELECT states FROM a) END, queue, available, heads, "
         "woken, "
         "passed, due FROM b";
}

// Completes the head of a session that is not held and not stopped. Parameters: those of the rows,
// then $10 now, $11 node, $12 batch, $13 and $14 the retention of completed and dead jobs.
std::string complete_text() {
  return "WITH v AS MATERIALIZED (SELECT u.id, u.token, u.keep, u.result, s.id AS sid, s.jobs, "
         "s.state_bytes, CASE WHEN s.jobs > 1 THEN (SELECT l.id FROM $schema.session_jobs l WHERE "
         "l.session = s.id AND l.id >= s.first ORDER BY l.id LIMIT 1) END AS next FROM " +
         rows_text("id", {"token", "queue", "keep"}, {"key", "result"}) +
         " JOIN $schema.sessions s ON s.queue = u.queue AND s.key = u.key WHERE s.head = u.id AND "
         "s.token = 0 AND s.stop = 0 ORDER BY u.id), "
         "u AS (UPDATE $schema.jobs j SET state = 4, version = j.version + 1, finished_at = $10, "
         "worker = NULL, lease_until = 0, flags = (j.flags & ~16) | CASE WHEN v.result IS NULL "
         "THEN 0 ELSE 1 END FROM v WHERE j.id = v.id AND j.token = v.token AND j.state = 3 AND "
         "j.schedule = 0 AND j.flags & 20512 = 0 AND (v.jobs = 1 OR EXISTS (SELECT 1 FROM "
         "$schema.jobs k WHERE k.id = v.next AND k.state = 0)) AND j.queue <> ALL(ARRAY(SELECT id "
         "FROM $schema.queues WHERE limits IS NOT NULL)) AND j.queue <> ALL(ARRAY(SELECT q.id FROM "
         "$schema.triggers t JOIN $schema.queues q ON coalesce(t.of_queue, q.name) = q.name WHERE "
         "t.ends IS NOT NULL AND t.ends & 1 <> 0)) RETURNING j.id, j.queue, v.result, v.sid, "
         "v.next, v.state_bytes, v.keep), "
         "n AS (UPDATE $schema.jobs j SET state = CASE WHEN j.run_at > $10 THEN 1 ELSE 2 END, "
         "version = j.version + 1 FROM u WHERE j.id = u.next RETURNING j.id, j.queue, j.priority, "
         "j.kind, j.run_at, j.state, CASE WHEN j.started_at = 0 THEN j.expires_at ELSE 0 END AS "
         "expires_at, u.sid), "
         "s AS (UPDATE $schema.sessions s SET head = coalesce(u.next, 0), first = coalesce(u.next "
         "+ 1, s.first), jobs = s.jobs - 1, changed_at = $10, prune_at = CASE WHEN u.next IS NULL "
         "AND s.state_bytes <> 0 THEN $10 + $14 ELSE 0 END FROM u WHERE s.id = u.sid AND (u.next "
         "IS "
         "NOT NULL OR u.state_bytes <> 0 OR u.keep <> 0)), "
         "e AS (DELETE FROM $schema.sessions s USING u WHERE s.id = u.sid AND u.next IS NULL AND "
         "u.state_bytes = 0 AND u.keep = 0), "
         "l AS (DELETE FROM $schema.session_jobs l USING u WHERE l.session = u.sid AND l.id = "
         "u.next), "
         "r AS (INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at, session) "
         "SELECT queue, priority, kind, run_at, id, expires_at, sid FROM n WHERE state = 2), "
         "d AS (INSERT INTO $schema.due (run_at, id) SELECT run_at, id FROM n WHERE state = 1), "
         "a AS MATERIALIZED (SELECT queue, array_agg(id) AS ids, bool_or(next IS NULL AND "
         "state_bytes "
         "<> 0) AS keeps FROM u GROUP BY queue), "
         "m AS MATERIALIZED (SELECT queue, priority, count(*) FILTER (WHERE state = 2) AS heads, "
         "count(*) FILTER (WHERE state = 1) AS ahead, min(run_at) FILTER (WHERE state = 2) AS "
         "first, min(run_at) FILTER (WHERE state = 1) AS due FROM n GROUP BY queue, priority), "
         "f AS (INSERT INTO $schema.finished (prune_at, seq, at, ids) SELECT $10 + "
         "coalesce(q.retention_completed, $13), nextval('$schema.row_numbers'), $10, a.ids FROM a "
         "JOIN $schema.queues q ON q.id = a.queue), "
         "x AS (INSERT INTO $schema.extras (id, result) SELECT id, result FROM u WHERE result IS "
         "NOT NULL ON CONFLICT (id) DO UPDATE SET result = excluded.result), "
         "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, running, completed, "
         "waiting, "
         "scheduled, available) SELECT $11, $12, $10, a.queue, -cardinality(a.ids), "
         "cardinality(a.ids), -coalesce(c.heads + c.ahead, 0), coalesce(c.ahead, 0), "
         "coalesce(c.heads, 0) FROM a LEFT JOIN (SELECT queue, sum(heads)::bigint AS heads, "
         "sum(ahead)::bigint AS ahead FROM m GROUP BY queue) c ON c.queue = a.queue) "
         "SELECT queue, ids, NULL::smallint AS priority, 0 AS heads, NULL::bigint AS first, "
         "NULL::bigint AS due, keeps FROM a UNION ALL SELECT queue, NULL, priority, heads, first, "
         "due, false FROM m";
}

}  // namespace

FastPathSessionStatements::FastPathSessionStatements(std::string_view s)
    : lock_there(s,
                 "SELECT count(*) FROM (SELECT queue, key FROM unnest($1::bigint[], $2::text[]) AS "
                 "u(queue, key) ORDER BY queue, key COLLATE \"C\") AS u CROSS JOIN LATERAL (SELECT "
                 "s.id FROM $schema.sessions s WHERE s.queue = u.queue AND s.key = u.key FOR NO "
                 "KEY UPDATE) AS s"),
      drop_empty(
          s,
          "DELETE FROM $schema.sessions s USING unnest($1::bigint[], $2::text[]) AS u(queue, "
          "key) WHERE s.queue = u.queue AND s.key = u.key AND s.jobs = 0 AND s.head = 0 AND "
          "s.token = 0 AND s.stop = 0 AND s.state_bytes = 0"),
      enqueue(s, session_enqueue_text()),
      complete(s, complete_text()),
      states(s, "SELECT id, state, run_at FROM $schema.jobs WHERE id = ANY($1)"),
      lock_jobs(s,
                "SELECT count(*) FROM (SELECT 1 FROM $schema.jobs WHERE id = ANY($1) ORDER BY id "
                "FOR NO KEY UPDATE) AS l") {}

}  // namespace mainspring::pg
