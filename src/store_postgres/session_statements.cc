// SQL texts of the statements on sessions. Times in microseconds; arrays instead of many
// executions.
#include "store_postgres/session_statements.h"

#include <string>

#include "store_postgres/claimed_columns.h"
#include "store_postgres/columns.h"

namespace mainspring::pg {
namespace {

#define MS_SESSION                                                                          \
  "s.queue, s.key, s.id, s.head, s.first, s.jobs, s.stop, s.stopped_by, s.token, s.lease, " \
  "s.kept, s.lease_until, s.look_at, s.prune_at, s.changed_at, s.state_bytes, s.worker"
#define MS_FIRST_IN_LINE                                                                  \
  "coalesce((SELECT l.id FROM $schema.session_jobs l WHERE l.session = s.id AND l.id >= " \
  "s.first ORDER BY l.id LIMIT 1), 0)"
// $1 the time; NULL = the database's clock.
#define MS_SHOWN_FROM                                                                         \
  "q.name, s.key, s.jobs, s.head, s.stop, s.stopped_by, CASE WHEN s.lease_until > n.at THEN " \
  "s.worker END, CASE WHEN s.lease_until > n.at THEN s.token ELSE 0 END, CASE WHEN "          \
  "s.lease_until > n.at THEN s.lease_until - n.at ELSE 0 END, s.state_bytes, s.changed_at"
#define MS_MOMENT "(SELECT coalesce($1::bigint, $schema.now_us()) AS at) AS n"

// A job waits in the session.
#define MS_HAS_LINE "s.jobs > (s.head <> 0)::integer"
// The first waiting job is read only if there is one, and if $3 asks for it.
constexpr std::string_view kRead =
    "SELECT " MS_SESSION ", CASE WHEN NOT " MS_HAS_LINE
    " THEN 0 WHEN $3::boolean THEN " MS_FIRST_IN_LINE
    " END, CASE WHEN s.head <> 0 THEN (SELECT j.state FROM $schema.jobs j WHERE j.id = s.head) END "
    "FROM unnest($1::bigint[], $2::text[]) AS u(queue, key) JOIN $schema.sessions s ON "
    "s.queue = u.queue AND s.key = u.key";
constexpr std::string_view kUpdate =
    "UPDATE $schema.sessions s SET head = u.head, first = u.first, jobs = u.jobs, stop = "
    "u.stop, stopped_by = u.stopped_by, token = u.token, lease = u.lease, kept = u.kept, "
    "lease_until = u.lease_until, look_at = u.look_at, prune_at = u.prune_at, changed_at "
    "= u.changed_at, state_bytes = u.state_bytes, worker = u.worker FROM ";
constexpr std::string_view kLock =
    "INSERT INTO $schema.sessions AS s (queue, key) SELECT queue, key FROM "
    "unnest($1::bigint[], $2::text[]) AS u(queue, key) ORDER BY queue, key COLLATE \"C\" ON "
    "CONFLICT (queue, key) DO UPDATE SET queue = s.queue WHERE false";
constexpr std::string_view kNextFree =
    "SELECT s.queue, s.key, r.id, r.priority, r.run_at FROM $schema.queues q JOIN "
    "$schema.ready r ON r.queue = q.id JOIN $schema.sessions s ON s.id = r.session "
    "WHERE q.id = $1::bigint AND NOT q.paused AND (q.limits IS NULL OR $4::boolean) AND "
    "r.session <> 0 AND s.head = r.id AND "
    "s.token = 0 AND (r.expires_at = 0 OR r.expires_at > $2) AND r.id <> ALL($3) ORDER "
    "BY r.priority, r.run_at, r.id LIMIT 1 FOR NO KEY UPDATE OF s SKIP LOCKED";
constexpr std::string_view kEndedLeases =
    "SELECT s.queue, s.key FROM $schema.sessions s WHERE s.look_at <> 0 AND "
    "s.look_at <= $1 ORDER BY s.look_at LIMIT $2::bigint FOR NO KEY UPDATE OF s "
    "SKIP LOCKED";
constexpr std::string_view kPrune =
    "DELETE FROM $schema.sessions WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
    "$schema.sessions WHERE prune_at <> 0 AND prune_at <= $1 ORDER BY prune_at LIMIT "
    "$2::bigint FOR UPDATE SKIP LOCKED)) RETURNING queue, key";
constexpr std::string_view kWaitingSessions =
    "SELECT q.name, u.key FROM unnest($1::bigint[], $2::text[]) AS u(queue, "
    "key) JOIN $schema.queues q ON q.id = u.queue LEFT JOIN $schema.sessions s "
    "ON s.queue = u.queue AND s.key = u.key LEFT JOIN $schema.jobs j ON j.id = "
    "s.head WHERE s.id IS NULL OR s.token = 0 OR (j.state = 0 AND NOT "
    "q.paused)";
constexpr std::string_view kShow =
    "SELECT " MS_SHOWN_FROM ", s.state FROM " MS_MOMENT
    ", $schema.queues q JOIN $schema.sessions s ON s.queue = q.id WHERE q.name = $2 AND "
    "s.key = $3";
constexpr std::string_view kList =
    "SELECT " MS_SHOWN_FROM " FROM " MS_MOMENT
    ", $schema.queues q CROSS JOIN LATERAL (SELECT * FROM $schema.sessions WHERE queue = "
    "q.id AND (q.name > $3 OR key > $4) ORDER BY key LIMIT $5::bigint) s WHERE ($2 = '' "
    "OR q.name = $2) AND q.name >= $3 ORDER BY q.name, s.key LIMIT $5::bigint";
constexpr std::string_view kHeadOfHolder =
    "SELECT k.id FROM $schema.jobs k JOIN $schema.queues q ON q.id = "
    "k.queue WHERE k.id = $1 AND k.state = 0 AND NOT q.paused AND (q.limits IS NULL OR "
    "$9::boolean) AND "
    "(k.started_at <> 0 OR k.expires_at = 0 OR k.expires_at > $5) FOR "
    "UPDATE OF k";
constexpr std::string_view kHeadOfLine =
    "SELECT r.ctid, r.id FROM $schema.ready r JOIN $schema.jobs k ON "
    "k.id = r.id WHERE r.queue = $9::bigint AND r.priority = "
    "$10::bigint AND r.run_at = $11 AND r.id = $1 AND k.state = 2 FOR "
    "UPDATE OF k SKIP LOCKED";

// `chosen` selects the job, which is in state `from`; `leave` removes it from its queue.
std::string session_claim_text(std::string_view chosen, std::string_view leave,
                               std::string_view from) {
  return "WITH c AS MATERIALIZED (" + std::string(chosen) + ")" + std::string(leave) +
         ", u AS (UPDATE $schema.jobs j SET state = 3, attempt = attempt + 1, version = version + "
         "1, token = nextval('$schema.tokens_given'), worker = $2, lease = $3, lease_until = $4, "
         "claimed_at = $6, started_at = $5, kept = NULL FROM c WHERE j.id = c.id "
         "RETURNING " MS_CLAIMED
         "), l AS (INSERT INTO $schema.leased (look_at, seq, node, ids) SELECT $4, "
         "nextval('$schema.row_numbers'), $7, array_agg(id) FROM u HAVING count(*) > 0 RETURNING "
         "seq), t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, " +
         std::string(from) +
         ", running) SELECT $7, $8, $5, queue, -count(*), count(*) FROM u GROUP BY queue) SELECT "
         "u.*, (SELECT seq FROM l) FROM u";
}

}  // namespace

SessionStatements::SessionStatements(std::string_view s)
    // Creates missing sessions, and locks the others without changing them.
    : lock(s, kLock),
      lock_free(s,
                "SELECT s.queue, s.key FROM unnest($1::bigint[], $2::text[]) AS u(queue, key) JOIN "
                "$schema.sessions s ON s.queue = u.queue AND s.key = u.key FOR NO KEY UPDATE OF s "
                "SKIP LOCKED"),
      read(s, kRead),
      of_jobs(s,
              "SELECT queue, session, flags, reply_to, reply_session, follow_ups, id FROM "
              "$schema.jobs WHERE id = ANY($1) AND flags & 192 <> 0"),
      next_in_line(s, "SELECT s.queue, s.key, " MS_FIRST_IN_LINE
                      " FROM $schema.sessions s WHERE s.id = ANY($1)"),
      update(s,
             std::string(kUpdate) +
                 rows_text("id",
                           {"head", "first", "jobs", "stop", "stopped_by", "token", "lease", "kept",
                            "lease_until", "look_at", "prune_at", "changed_at", "state_bytes"},
                           {"worker"}) +
                 " WHERE s.id = u.id"),
      save_state(s,
                 "UPDATE $schema.sessions s SET state = u.state FROM unnest($1::bigint[], "
                 "$2::text[]) AS u(id, state) WHERE s.id = u.id"),
      read_state(s, "SELECT state FROM $schema.sessions WHERE id = $1"),
      renew(s,
            "UPDATE $schema.sessions SET lease = $2, kept = $3, lease_until = $4, look_at = $5 "
            "WHERE id = $1"),
      remove(s, "DELETE FROM $schema.sessions WHERE id = ANY($1)"),
      insert_line(s,
                  "INSERT INTO $schema.session_jobs (session, id) SELECT * FROM "
                  "unnest($1::bigint[], $2::bigint[])"),
      delete_line(s,
                  "DELETE FROM $schema.session_jobs d USING unnest($1::bigint[], $2::bigint[]) AS "
                  "u(session, id) WHERE d.session = u.session AND d.id = u.id"),
      next_token(s, "SELECT nextval('$schema.tokens_given')"),
      count_held(s, "SELECT count(*) FROM $schema.sessions WHERE look_at <> 0"),
      next_free(s, kNextFree),
      ended_leases(s, kEndedLeases),
      start_over(s,
                 "UPDATE $schema.sessions SET lease = kept, lease_until = $1 + greatest(kept, $2), "
                 "look_at = $1 + greatest(kept, $2) WHERE look_at <> 0"),
      prune(s, kPrune),
      waiting_lines(s,
                    "SELECT q.name FROM $schema.queues q WHERE q.id = ANY($1) AND NOT q.paused AND "
                    "EXISTS (SELECT 1 FROM $schema.ready r WHERE r.queue = q.id AND r.session <> "
                    "0)"),
      // Includes sessions no longer held: claims that wait for one are notified.
      waiting_sessions(s, kWaitingSessions),
      queues_with_heads(s,
                        "SELECT q.id FROM $schema.queues q WHERE EXISTS (SELECT 1 FROM "
                        "$schema.ready r WHERE r.queue = q.id AND r.session <> 0)"),
      held_heads(s,
                 "SELECT s.key FROM $schema.sessions s JOIN $schema.jobs j ON j.id = s.head WHERE "
                 "s.look_at <> 0 AND s.queue = $1::bigint AND j.state = 0"),
      idle_sessions(s,
                    "SELECT q.name, s.key FROM $schema.sessions s JOIN $schema.queues q ON q.id = "
                    "s.queue LEFT JOIN $schema.jobs j ON j.id = s.head WHERE s.look_at <> 0 AND "
                    "j.state IS DISTINCT FROM 0 LIMIT $1::bigint"),
      show(s, kShow),
      list(s, kList),
      claim_held(s, session_claim_text(kHeadOfHolder, "", "waiting")),
      claim_head(s,
                 session_claim_text(kHeadOfLine,
                                    ", d AS (DELETE FROM $schema.ready USING c WHERE ready.ctid = "
                                    "c.ctid)",
                                    "available")) {}

#undef MS_SESSION
#undef MS_FIRST_IN_LINE
#undef MS_HAS_LINE
#undef MS_SHOWN_FROM
#undef MS_MOMENT

}  // namespace mainspring::pg
