// SQL texts of the statements. Times in microseconds; arrays instead of many executions.
#include "store_postgres/statements.h"

#include <string>

#include "store_postgres/claimed_columns.h"
#include "store_postgres/columns.h"

namespace mainspring::pg {

#define MS_COLUMNS                                                                              \
  "j.id, j.state, j.flags, j.priority, j.attempt, j.max_attempts, j.version, j.token, "         \
  "j.lease_until, j.lease, j.claimed_at, j.run_at, j.started_at, j.finished_at, j.expires_at, " \
  "j.created_at, j.timeout, j.schedule, j.queue, j.kind, j.budget, j.worker, j.unique_key, "    \
  "j.session, coalesce(j.trigger_depth, 0), j.deferred IS TRUE, coalesce(j.lost, 0), "          \
  "coalesce(j.quarantined, 0), coalesce(j.kept, 0)"

BatchStatements::BatchStatements(std::string_view s)
    : begin(s, "BEGIN"),
      plan_by_keys(s,
                   "SELECT set_config('random_page_cost', '0.01', true), "
                   "set_config('seq_page_cost', '0.01', true), set_config('enable_hashjoin', "
                   "'off', true), set_config('enable_mergejoin', 'off', true), "
                   "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', "
                   "'off', true), set_config('jit', 'off', true)"),
      clock(s, "SELECT $schema.now_us()"),
      begin_quietly(s, "SET LOCAL synchronous_commit = off"),
      commit(s, "COMMIT"),
      roll_back(s, "ROLLBACK"),
      mark_batch(
          s,
          "INSERT INTO $schema.job_counts (node, batch, at, queue) SELECT $1, $2, $3, 0 FROM "
          "(SELECT $schema.hold_batch($1, $2, $4)) AS l"),
      hold(s, "SELECT $schema.hold_batch($1, $2, $3)"),
      give_up(s,
              "WITH old AS (DELETE FROM $schema.given_up WHERE at < $3 - 86400000000 AND node <> "
              "$1) INSERT INTO $schema.given_up AS g (node, session, at) VALUES ($1, $2, $3) ON "
              "CONFLICT (node) DO UPDATE SET session = greatest(g.session, excluded.session), at = "
              "excluded.at"),
      await_batch(s,
                  "SELECT set_config('lock_timeout', '0', true), "
                  "pg_advisory_xact_lock(($1 << 40) | $2)"),
      find_batch(
          s,
          "SELECT ids FROM $schema.job_counts WHERE node = $1 AND batch = $2 ORDER BY ids IS "
          "NULL LIMIT 1") {}

namespace {

#define MS_JOB_COUNTS                                                                   \
  "sum(enqueued)::bigint AS enqueued, sum(waiting + scheduled + available + running + " \
  "completed + retryable + cancelled + dead + expired)::bigint AS jobs FROM $schema.job_counts "

constexpr std::string_view kFindRemovable =
    "SELECT q.removed AND coalesce(t.enqueued, 0) = q.empty_at, coalesce(t.jobs, 0) FROM "
    "$schema.queues q LEFT JOIN LATERAL (SELECT " MS_JOB_COUNTS
    "WHERE queue = q.id) t ON true WHERE q.name = $1 FOR UPDATE OF q";

// $1 now, $2 idle, $3 limit. A time in the future was set by a clock that was ahead. Returns which
// of the changed queues are removed now.
constexpr std::string_view kForgetQueues =
    "WITH c AS MATERIALIZED (SELECT q.id, coalesce(t.enqueued, 0) AS enqueued, "
    "q.empty_since IS NOT NULL AND q.empty_at = coalesce(t.enqueued, 0) AND q.empty_since <= $1 AS "
    "known, $1 - q.empty_since >= $2 AS over FROM $schema.queues q LEFT JOIN (SELECT "
    "queue, " MS_JOB_COUNTS
    "WHERE queue <> 0 GROUP BY queue) t ON t.queue = q.id WHERE coalesce(t.jobs, 0) = 0 AND NOT "
    "(q.removed AND q.empty_at = coalesce(t.enqueued, 0)) AND NOT q.paused AND "
    "q.retention_completed IS NULL AND q.retention_dead IS NULL AND q.limits IS NULL AND "
    "q.settings IS NULL), "
    "d AS MATERIALIZED (SELECT * FROM c WHERE over OR NOT known ORDER BY id LIMIT $3::bigint) "
    "UPDATE $schema.queues q SET empty_since = CASE WHEN d.known AND d.over THEN q.empty_since "
    "ELSE "
    "$1 END, empty_at = d.enqueued, removed = d.known AND d.over FROM d WHERE q.id = d.id "
    "RETURNING "
    "q.removed";

#undef MS_JOB_COUNTS

}  // namespace

CatalogStatements::CatalogStatements(std::string_view s)
    : load_queues(s,
                  "SELECT id, name, paused, retention_completed, retention_dead, coalesce(limits, "
                  "settings), meter, opens_at, keys_open_at, pause FROM $schema.queues"),
      insert_queue(
          s,
          "WITH new AS (INSERT INTO $schema.queues (name) VALUES ($schema.free_name('queue', $1)) "
          "ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id, paused, "
          "retention_completed, "
          "retention_dead, coalesce(limits, settings) AS limits, meter, opens_at, keys_open_at, "
          "pause, xmax = 0 AS made) SELECT id, paused, retention_completed, retention_dead, "
          "limits, meter, opens_at, keys_open_at, pause, made FROM new"),
      update_queue(
          s,
          "UPDATE $schema.queues SET removed = false, paused = $2, retention_completed = $3, "
          "retention_dead = $4, limits = $5, meter = $6, opens_at = $7, settings = $8, "
          "keys_open_at = $9, pause = $10 WHERE id = $1::bigint"),
      lock_queue(
          s,
          "SELECT paused, retention_completed, retention_dead, coalesce(limits, settings), "
          "meter, opens_at, keys_open_at, pause, removed FROM $schema.queues WHERE name = $1 FOR "
          "UPDATE"),
      find_removable(s, kFindRemovable),
      mark_removed(s,
                   "UPDATE $schema.queues q SET removed = true, empty_since = $2, empty_at = "
                   "coalesce((SELECT sum(enqueued) FROM $schema.job_counts WHERE queue = q.id), 0) "
                   "WHERE id = $1::bigint"),
      forget_queues(s, kForgetQueues),
      load_kinds(s, "SELECT id, name FROM $schema.kinds"),
      insert_kind(s,
                  "INSERT INTO $schema.kinds (name) VALUES ($schema.free_name('kind', $1)) ON "
                  "CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id"),
      raise_version(s, "UPDATE $schema.versions SET version = version + 1 WHERE what = $1") {}

JobStatements::JobStatements(std::string_view s)
    : take_jobs(s, "SELECT " MS_COLUMNS
                   " FROM $schema.jobs j WHERE j.id = ANY($1) ORDER BY j.id FOR UPDATE"),
      take_free_jobs(s, "SELECT " MS_COLUMNS
                        " FROM $schema.jobs j WHERE j.id = ANY($1) ORDER BY j.id FOR UPDATE SKIP "
                        "LOCKED"),
      existing_jobs(s, "SELECT id FROM $schema.jobs WHERE id = ANY($1)"),
      new_ids(s, "SELECT nextval('$schema.job_ids') FROM generate_series(1, $1::integer)"),
      last_id(s, "SELECT last_value, is_called FROM $schema.job_ids"),
      insert_jobs(
          s,
          "INSERT INTO $schema.jobs (attempt, version, token, lease_until, lease, claimed_at, "
          "started_at, finished_at, created_at, id, state, flags, priority, max_attempts, run_at, "
          "expires_at, timeout, schedule, queue, kind, budget, trigger_depth, unique_key, "
          "correlation_id, reply_to, tags, headers, args, follow_ups, session, reply_session, "
          "limit_key) SELECT 0, 1, 0, 0, 0, 0, 0, 0, $36, id, state, flags, priority, "
          "max_attempts, run_at, expires_at, timeout, schedule, queue, kind, budget, "
          "nullif(depth, 0), unique_key, correlation_id, reply_to, string_to_array(tags, "
          "E'\\x1f'), "
          "headers, args, follow_ups, session, reply_session, limit_key FROM " +
              rows_text("id",
                        {"state", "flags", "priority", "max_attempts", "run_at", "expires_at",
                         "timeout", "schedule", "queue", "kind", "budget", "depth"},
                        {"unique_key", "correlation_id", "reply_to", "tags", "headers", "args",
                         "follow_ups", "session", "reply_session", "limit_key"})),
      update_jobs(
          s,
          "UPDATE $schema.jobs j SET state = u.state, flags = u.flags, priority = u.priority, "
          "attempt = u.attempt, max_attempts = u.max_attempts, version = u.version, "
          "token = u.token, lease_until = u.lease_until, lease = u.lease, "
          "claimed_at = u.claimed_at, run_at = u.run_at, started_at = u.started_at, "
          "finished_at = u.finished_at, expires_at = u.expires_at, kept = nullif(u.kept, 0), "
          "worker = u.worker FROM " +
              rows_text("id",
                        {"state", "flags", "priority", "attempt", "max_attempts", "version",
                         "token", "lease_until", "lease", "claimed_at", "run_at", "started_at",
                         "finished_at", "expires_at", "kept"},
                        {"worker"}) +
              " WHERE j.id = u.id"),
      replace_bodies(
          s,
          "UPDATE $schema.jobs SET kind = $2::bigint, budget = $3::bigint, timeout = $4, "
          "correlation_id = $5, reply_to = $6, tags = string_to_array($7, E'\\x1f'), "
          "headers = $8, args = $9, follow_ups = $10, reply_session = $11, trigger_depth = "
          "nullif($12::bigint, 0), limit_key = $13 WHERE id = $1"),
      edit_bodies(s,
                  "UPDATE $schema.jobs SET args = coalesce($2::text, args), tags = CASE WHEN "
                  "$3::boolean THEN string_to_array($4::text, E'\\x1f') ELSE tags END WHERE id = "
                  "$1"),
      read_followed(
          s,
          "SELECT id, tags, headers, correlation_id, reply_to, follow_ups, reply_session FROM "
          "$schema.jobs WHERE id = ANY($1)") {}

ReadyStatements::ReadyStatements(std::string_view s)
    : insert_ready(
          s,
          "INSERT INTO $schema.ready (id, queue, priority, kind, run_at, expires_at, session) "
          "SELECT * FROM " +
              rows_text("id", {"queue", "priority", "kind", "run_at", "expires_at", "session"})),
      delete_ready(s, "DELETE FROM $schema.ready r USING " +
                          rows_text("id", {"queue", "priority", "run_at"}) +
                          " WHERE r.queue = u.queue AND r.priority = u.priority AND r.run_at = "
                          "u.run_at AND r.id = u.id"),
      insert_due(s,
                 "INSERT INTO $schema.due (run_at, id) SELECT * FROM unnest($1::bigint[], "
                 "$2::bigint[])"),
      delete_due(s,
                 "DELETE FROM $schema.due d USING unnest($1::bigint[], $2::bigint[]) AS "
                 "u(run_at, id) WHERE d.run_at = u.run_at AND d.id = u.id"),
      insert_expiring(s,
                      "INSERT INTO $schema.expiring (expires_at, id) SELECT * FROM "
                      "unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING"),
      delete_expiring(s,
                      "DELETE FROM $schema.expiring d USING unnest($1::bigint[], $2::bigint[]) AS "
                      "u(expires_at, id) WHERE d.expires_at = u.expires_at AND d.id = u.id"),
      insert_leased(s,
                    "INSERT INTO $schema.leased (look_at, seq, node, ids) VALUES ($1, "
                    "nextval('$schema.row_numbers'), $2, $3) RETURNING seq"),
      delete_leased(s,
                    "DELETE FROM $schema.leased d USING unnest($1::bigint[], $2::bigint[]) AS "
                    "u(look_at, seq) WHERE d.look_at = u.look_at AND d.seq = u.seq"),
      insert_finished(s,
                      "INSERT INTO $schema.finished (prune_at, seq, at, ids) VALUES ($1, "
                      "nextval('$schema.row_numbers'), $2, $3)"),
      insert_dead(
          s,
          "INSERT INTO $schema.dead_letter (id, queue, kind, fingerprint, at) SELECT * FROM "
          "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) ON "
          "CONFLICT DO NOTHING"),
      delete_dead(s, "DELETE FROM $schema.dead_letter WHERE id = ANY($1)"),
      insert_deferred(
          s,
          "WITH j AS (UPDATE $schema.jobs SET deferred = true WHERE id = ANY($1)) INSERT "
          "INTO $schema.deferred (id) SELECT unnest($1::bigint[]) ON CONFLICT DO "
          "NOTHING"),
      delete_deferred(
          s,
          "WITH j AS (UPDATE $schema.jobs SET deferred = NULL WHERE id = ANY($1)) DELETE "
          "FROM $schema.deferred WHERE id = ANY($1)"),
      insert_job_counts(
          s,
          "INSERT INTO $schema.job_counts (node, batch, at, queue, enqueued, pruned, expired, "
          "waiting, scheduled, available, running, completed, retryable, cancelled, dead) SELECT "
          "$1, $2, $3, u.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], "
          "$8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], "
          "$13::bigint[], $14::bigint[], $15::bigint[]) AS u, (SELECT "
          "$schema.hold_batch($1, $2, $16)) AS l"),
      insert_errors(s,
                    "INSERT INTO $schema.errors (job, seq, attempt, at, ran_for, worker, message, "
                    "program_end) "
                    "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], "
                    "$5::bigint[], $6::text[], $7::text[], $8::text[])"),
      delete_jobs(s,
                  "WITH e AS (DELETE FROM $schema.extras WHERE id = ANY($2)), r AS (DELETE FROM "
                  "$schema.errors WHERE job = ANY($3)), d AS (DELETE FROM $schema.dead_letter "
                  "WHERE id = ANY($4)) DELETE FROM $schema.jobs WHERE id = ANY($1)") {}

ExtraStatements::ExtraStatements(std::string_view s)
    : upsert_reasons(
          s,
          "INSERT INTO $schema.extras (id, reason, description) SELECT * FROM "
          "unnest($1::bigint[], $2::text[], $3::text[]) ON CONFLICT (id) DO UPDATE SET reason = "
          "excluded.reason, description = excluded.description"),
      upsert_results(s,
                     "INSERT INTO $schema.extras (id, result) SELECT * FROM unnest($1::bigint[], "
                     "$2::text[]) ON CONFLICT (id) DO UPDATE SET result = excluded.result"),
      upsert_progress(
          s,
          "INSERT INTO $schema.extras (id, progress_value, progress_text) SELECT * FROM "
          "unnest($1::bigint[], $2::float8[], $3::text[]) ON CONFLICT (id) DO UPDATE SET "
          "progress_value = excluded.progress_value, progress_text = excluded.progress_text"),
      upsert_checkpoints(
          s,
          "INSERT INTO $schema.extras (id, checkpoint) SELECT * FROM unnest($1::bigint[], "
          "$2::text[]) ON CONFLICT (id) DO UPDATE SET checkpoint = excluded.checkpoint"),
      forget_extras(s,
                    "UPDATE $schema.extras SET checkpoint = NULL, progress_value = NULL, "
                    "progress_text = NULL, warning = NULL WHERE id = $1::bigint"),
      upsert_warnings(s,
                      "INSERT INTO $schema.extras (id, warning) SELECT * FROM unnest($1::bigint[], "
                      "$2::text[]) ON CONFLICT (id) DO UPDATE SET warning = excluded.warning"),
      upsert_wish(s,
                  "INSERT INTO $schema.extras (id, cancel_reason) VALUES ($1, $2) ON CONFLICT "
                  "(id) DO UPDATE SET cancel_reason = excluded.cancel_reason"),
      select_wish(s, "SELECT cancel_reason FROM $schema.extras WHERE id = $1"),
      select_progress(s,
                      "SELECT id, progress_value, progress_text FROM $schema.extras WHERE id = "
                      "ANY($1) AND progress_value IS NOT NULL") {}

namespace {

// The payload goes directly into its row; the other values needed from it are returned from there.
// A column with the same value in all jobs is passed once instead of as an array.
enum class Rest { available, some_wait, packs };

std::string enqueue_text(Rest rest) {
  const std::string due =
      "d AS (INSERT INTO $schema.due (run_at, id) SELECT run_at, id FROM j WHERE state = 1), ";
  const std::string ready =
      "r AS (INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at) SELECT "
      "queue, priority, kind, run_at, id, 0 FROM j WHERE state = 2), ";
  const std::string packs =
      "r AS (INSERT INTO $schema.packs (queue, priority, kind, run_at, first, ids) SELECT queue, "
      "priority, kind, run_at, min(id), array_agg(id) FROM (SELECT *, (row_number() OVER () - 1) / "
      "$29::bigint AS part FROM j) p GROUP BY queue, priority, kind, run_at, part), ";
  return std::string(
             "WITH j AS (INSERT INTO $schema.jobs (id, state, flags, priority, attempt, "
             "max_attempts, version, token, lease_until, lease, claimed_at, run_at, started_at, "
             "finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget, "
             "correlation_id, reply_to, tags, headers, args) SELECT nextval('$schema.job_ids'), "
             "coalesce(state, $22), 0, coalesce(priority, $23), 0, coalesce(max_attempts, $27), 1, "
             "0, 0, 0, 0, coalesce(run_at, $24), 0, 0, 0, $13, coalesce(timeout, $28), 0, "
             "coalesce(queue, $25), coalesce(kind, $26), coalesce(max_attempts, $27), "
             "correlation_id, reply_to, string_to_array(tags, E'\\x1f'), headers, args FROM "
             "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], "
             "$6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], "
             "$12::text[]) AS u(state, priority, run_at, queue, kind, max_attempts, timeout, args, "
             "headers, tags, correlation_id, reply_to) RETURNING id, state, queue, priority, kind, "
             "run_at), ") +
         (rest == Rest::packs ? packs : ready) + (rest == Rest::some_wait ? due : "") +
         "a AS MATERIALIZED (SELECT array_agg(id) AS ids FROM j), "
         "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, enqueued, scheduled, "
         "available, ids) SELECT $14, $15, $13, u.queue, u.enqueued, u.enqueued - u.available, "
         "u.available, CASE WHEN $16::boolean AND u.n = 1 THEN (SELECT ids FROM a) END "
         "FROM unnest($17::bigint[], $18::bigint[], $19::bigint[]) WITH ORDINALITY AS u(queue, "
         "enqueued, available, n), (SELECT CASE WHEN $20::boolean THEN $schema.hold_batch($14, "
         "$15, $21) END) AS l) "
         "SELECT ids FROM a";
}

// `chosen` selects ctid and id of rows in `ready` whose jobs it has locked, and bytes of these
// jobs, in order.
std::string claim_text(std::string_view chosen) {
  return "WITH c AS MATERIALIZED (SELECT x.ctid, sum(x.bytes) OVER (ROWS UNBOUNDED PRECEDING) - "
         "x.bytes AS before FROM (" +
         std::string(chosen) +
         ") x), d AS (DELETE FROM $schema.ready USING c WHERE ready.ctid = c.ctid AND c.before "
         "< " MS_PAGE_BYTES
         " RETURNING ready.id), "
         "u AS (UPDATE $schema.jobs j SET " MS_BEGUN
         " FROM d WHERE j.id = d.id RETURNING " MS_CLAIMED
         "), l AS (INSERT INTO $schema.leased (look_at, seq, node, ids) SELECT $5, "
         "nextval('$schema.row_numbers'), $8, array_agg(id) FROM u HAVING count(*) > 0 RETURNING "
         "seq), "
         "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, available, running) SELECT "
         "$8, $9, $6, queue, -count(*), count(*) FROM u GROUP BY queue) "
         "SELECT u.*, (SELECT seq FROM l) FROM u";
}

}  // namespace

EnqueueStatements::EnqueueStatements(std::string_view s)
    : select_idempotency(s,
                         "SELECT fingerprint, ids, expires_at FROM $schema.idempotency WHERE key "
                         "= $1 FOR UPDATE"),
      claim_idempotency(s,
                        "INSERT INTO $schema.idempotency (key, expires_at, fingerprint, ids) "
                        "VALUES ($1, 0, '', '{}') ON CONFLICT (key) DO NOTHING"),
      drop_idempotency(s, "DELETE FROM $schema.idempotency WHERE key = $1 AND expires_at = 0"),
      insert_idempotency(
          s,
          "INSERT INTO $schema.idempotency (key, expires_at, fingerprint, ids) VALUES ($1, $2, "
          "$3, $4) ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, fingerprint "
          "= excluded.fingerprint, ids = excluded.ids"),
      key_in_use(s,
                 "SELECT k.key FROM unnest($1::text[], $2::text[]) AS k(queue, key) WHERE "
                 "$schema.is_key_locked(k.queue, k.key) LIMIT 1"),
      take_unique(s,
                  "SELECT id, until, ended FROM $schema.uniques WHERE queue = $1::bigint AND key = "
                  "$2 FOR UPDATE"),
      claim_unique(s,
                   "INSERT INTO $schema.uniques (queue, key, id, until) VALUES ($1::bigint, $2, 0, "
                   "0) ON CONFLICT (queue, key) DO NOTHING"),
      set_unique(s,
                 "INSERT INTO $schema.uniques (queue, key, id, until) VALUES ($1::bigint, $2, $3, "
                 "$4) ON CONFLICT (queue, key) DO UPDATE SET id = excluded.id, until = "
                 "excluded.until, ended = NULL"),
      let_unique_go(
          s,
          "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], "
          "$4::bigint[]) AS u(queue, key, id, state)), kept AS (UPDATE $schema.uniques k SET ended "
          "= u.state FROM u WHERE k.queue = u.queue AND k.key = u.key AND k.id = u.id AND "
          "k.until > $5) DELETE FROM $schema.uniques d USING u WHERE d.queue = u.queue "
          "AND d.key = u.key AND d.id = u.id AND d.until <= $5"),
      enqueue_available(s, enqueue_text(Rest::available)),
      enqueue_simple(s, enqueue_text(Rest::some_wait)),
      enqueue_packs(s, enqueue_text(Rest::packs)) {}

ClaimStatements::ClaimStatements(std::string_view s)
    : claim_one_queue(
          s, claim_text(
                 "SELECT r.ctid, r.id, r.bytes FROM $schema.queues q, unnest($11::bigint[], "
                 "$12::bigint[]) "
                 "AS h(priority, first), LATERAL (SELECT l.ctid, l.id, " MS_CLAIMED_BYTES
                 " AS bytes FROM $schema.ready l JOIN "
                 "$schema.jobs k ON k.id = l.id WHERE l.queue = q.id AND l.priority = h.priority "
                 "AND l.run_at >= h.first AND (l.expires_at = 0 OR l.expires_at > $6) AND "
                 "($2::bigint[] IS NULL OR l.kind = ANY($2)) AND k.state = 2 ORDER BY l.run_at, "
                 "l.id LIMIT $1::bigint FOR UPDATE OF k SKIP LOCKED) r WHERE q.id = $10::bigint "
                 "AND NOT q.paused AND q.limits IS NULL LIMIT $1::bigint")),
      claim_queues(
          s, claim_text(
                 "SELECT f.ctid, f.id, " MS_CLAIMED_BYTES
                 " AS bytes FROM (SELECT r.* FROM $schema.queues q, "
                 "generate_series(0, 9) AS h(priority), LATERAL (SELECT ctid, * FROM $schema.ready "
                 "WHERE queue = q.id AND priority = h.priority AND (expires_at = 0 OR expires_at > "
                 "$6) AND ($2::bigint[] IS NULL OR kind = ANY($2)) ORDER BY run_at, id LIMIT "
                 "$1::bigint) r WHERE q.id = ANY($10::bigint[]) AND NOT q.paused AND q.limits IS "
                 "NULL ORDER BY "
                 "r.priority, r.run_at, r.id LIMIT $1::bigint) f JOIN $schema.jobs k ON k.id = "
                 "f.id WHERE k.state = 2 ORDER BY f.priority, f.run_at, f.id FOR UPDATE OF k SKIP "
                 "LOCKED")),
      find_claimed(s, "SELECT " MS_CLAIMED
                      " FROM (SELECT DISTINCT unnest(ids) AS id FROM $schema.leased WHERE look_at "
                      "= $1 AND node = $2) l JOIN $schema.jobs j ON j.id = l.id WHERE j.state = 3 "
                      "AND j.worker = $3 AND j.claimed_at = $4 AND j.lease_until = $1"),
      checkpoints(s,
                  "SELECT id, checkpoint FROM $schema.extras WHERE id = ANY($1) AND checkpoint IS "
                  "NOT NULL"),
      complete_simple(
          s,
          "WITH u AS (UPDATE $schema.jobs j SET state = 4, version = j.version + 1, finished_at = "
          "$3, worker = NULL, lease_until = 0, flags = (j.flags & ~16) | CASE WHEN u.result IS "
          "NULL THEN 0 ELSE 1 END FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], "
          "$4::text[]) AS v(id, token, result) ORDER BY id) AS u WHERE j.id = u.id AND j.token = "
          "u.token AND j.state = 3 AND j.schedule = 0 AND j.flags & 20576 = 0 AND j.queue <> "
          "ALL(ARRAY(SELECT id FROM $schema.queues WHERE limits IS NOT NULL)) AND j.queue <> "
          "ALL(ARRAY(SELECT q.id FROM $schema.triggers t JOIN $schema.queues q ON "
          "coalesce(t.of_queue, q.name) = q.name WHERE t.ends IS NOT NULL AND t.ends & 1 <> 0)) "
          "RETURNING j.id, j.queue, u.result), "
          // The ids are returned as one array per queue: separate rows cost more.
          "a AS MATERIALIZED (SELECT queue, array_agg(id) AS ids FROM u GROUP BY queue), "
          "f AS (INSERT INTO $schema.finished (prune_at, seq, at, ids) SELECT $3 + "
          "coalesce(q.retention_completed, $7), nextval('$schema.row_numbers'), $3, a.ids FROM a "
          "JOIN $schema.queues q ON q.id = a.queue), "
          "x AS (INSERT INTO $schema.extras (id, result) SELECT id, result FROM u WHERE result IS "
          "NOT NULL ON CONFLICT (id) DO UPDATE SET result = excluded.result), "
          "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, running, completed) "
          "SELECT "
          "$5, $6, $3, queue, -cardinality(ids), cardinality(ids) FROM a) "
          "SELECT queue, ids FROM a"),
      renew_simple(s,
                   "UPDATE $schema.jobs j SET lease_until = u.until, kept = greatest(j.kept, "
                   "j.lease) FROM unnest($1::bigint[], "
                   "$2::bigint[], $3::bigint[]) AS u(id, token, until) WHERE j.id = u.id AND "
                   "j.token = u.token AND j.state = 3") {}

LimitStatements::LimitStatements(std::string_view s)
    : claim_limited(
          s,
          claim_text(
              "SELECT f.ctid, f.id, " MS_CLAIMED_BYTES
              " AS bytes FROM (SELECT r.*, 0 AS n FROM unnest($10::bigint[], "
              "$11::bigint[]) AS q(id, room), LATERAL (SELECT ctid, priority, run_at, id FROM "
              "$schema.ready WHERE queue = q.id AND "
              "(expires_at = 0 OR expires_at > $6) AND ($2::bigint[] IS NULL OR kind = ANY($2)) "
              "ORDER BY priority, run_at, id LIMIT least($1::bigint, q.room)) r UNION ALL SELECT "
              "l.ctid, l.priority, l.run_at, l.id, CASE WHEN $16::boolean THEN a.n ELSE 0 END FROM "
              "unnest($12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[]) WITH ORDINALITY "
              "AS a(queue, priority, run_at, id, n) JOIN $schema.ready "
              "l ON l.queue = a.queue AND l.priority = a.priority AND l.run_at = a.run_at AND l.id "
              "= a.id ORDER BY n, priority, run_at, id LIMIT $1::bigint) f JOIN $schema.jobs k ON "
              "k.id = f.id WHERE k.state = 2 ORDER BY f.n, f.priority, f.run_at, f.id FOR UPDATE "
              "OF k SKIP LOCKED")),
      lock_limits(s,
                  "SELECT id FROM $schema.queues WHERE id = ANY($1::bigint[]) ORDER BY id FOR "
                  "UPDATE"),
      read_limits(
          s,
          "SELECT q.id, coalesce(q.limits, q.settings), q.meter, q.opens_at, q.keys_open_at, "
          "q.paused, (SELECT "
          "coalesce(sum(t.running), 0)::bigint FROM $schema.job_counts t WHERE t.queue = q.id) "
          "FROM $schema.queues q WHERE q.id = ANY($1::bigint[]) ORDER BY q.id"),
      update_meter(s, "UPDATE $schema.queues SET meter = $2, opens_at = $3 WHERE id = $1::bigint"),
      due_openings(s,
                   "SELECT name FROM $schema.queues WHERE opens_at <= $1 ORDER BY opens_at, name "
                   "LIMIT $2::bigint") {}

StepStatements::StepStatements(std::string_view s)
    : due_jobs(s,
               "SELECT run_at, id FROM $schema.due WHERE run_at <= $1 ORDER BY run_at, id LIMIT "
               "$2::bigint"),
      due_queues(s,
                 "SELECT j.queue, count(*) FROM (SELECT id FROM $schema.due WHERE run_at <= $1 "
                 "ORDER BY run_at, id LIMIT $2::bigint) d JOIN $schema.jobs j ON j.id = d.id "
                 "GROUP BY j.queue"),
      expiring_jobs(s,
                    "SELECT expires_at, id FROM $schema.expiring WHERE expires_at <= $1 ORDER BY "
                    "expires_at, id LIMIT $2::bigint"),
      leased_rows(s,
                  "WITH l AS (DELETE FROM $schema.leased WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
                  "$schema.leased WHERE look_at <= $1 ORDER BY look_at, seq LIMIT $2::bigint FOR "
                  "UPDATE SKIP LOCKED)) RETURNING ids) SELECT j.id, j.lease_until FROM (SELECT "
                  "DISTINCT unnest(ids) AS id FROM l) u JOIN $schema.jobs j ON j.id = u.id WHERE "
                  "j.state = 3 ORDER BY j.lease_until, j.id"),
      finished_rows(s,
                    "SELECT prune_at, seq, at, ids FROM $schema.finished WHERE prune_at <= $1 "
                    "ORDER BY prune_at, seq LIMIT $2::bigint FOR UPDATE SKIP LOCKED"),
      delete_finished(s,
                      "DELETE FROM $schema.finished d USING unnest($1::bigint[], $2::bigint[]) AS "
                      "u(prune_at, seq) WHERE d.prune_at = u.prune_at AND d.seq = u.seq"),
      update_finished(s, "UPDATE $schema.finished SET ids = $3 WHERE prune_at = $1 AND seq = $2"),
      delete_idempotency(s,
                         "DELETE FROM $schema.idempotency WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
                         "$schema.idempotency WHERE expires_at <= $1 LIMIT $2::bigint FOR UPDATE "
                         "SKIP LOCKED))"),
      prune_uniques(s,
                    "DELETE FROM $schema.uniques WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
                    "$schema.uniques WHERE ended IS NOT NULL AND until <= $1 ORDER BY until LIMIT "
                    "$2::bigint FOR UPDATE SKIP LOCKED))"),
      dead_jobs(s,
                "SELECT j.id FROM $schema.dead_letter d JOIN $schema.jobs j ON j.id = d.id WHERE "
                "d.id > $1 AND ($2::bigint IS NULL OR j.queue = $2) AND ($3::bigint IS NULL OR "
                "j.kind = $3) AND ($4::text IS NULL OR $4 = ANY(j.tags)) ORDER BY d.id LIMIT "
                "$5::bigint"),
      fold_job_counts(
          s,
          "WITH d AS (DELETE FROM $schema.job_counts WHERE at < $1 RETURNING *) INSERT INTO "
          "$schema.job_counts SELECT 0, 0, 0, queue, sum(enqueued), sum(pruned), sum(expired), "
          "sum(waiting), sum(scheduled), sum(available), sum(running), sum(completed), "
          "sum(retryable), sum(cancelled), sum(dead) FROM d WHERE queue <> 0 GROUP BY queue") {}

AgendaStatements::AgendaStatements(std::string_view s)
    : first_due(s, "SELECT run_at FROM $schema.due ORDER BY run_at LIMIT 1"),
      first_expiring(s, "SELECT expires_at FROM $schema.expiring ORDER BY expires_at LIMIT 1"),
      first_prune(s,
                  "SELECT least((SELECT prune_at FROM $schema.finished ORDER BY prune_at LIMIT 1), "
                  "(SELECT expires_at FROM $schema.idempotency ORDER BY expires_at LIMIT 1), "
                  "(SELECT until FROM $schema.uniques WHERE ended IS NOT NULL ORDER BY until LIMIT "
                  "1), "
                  "(SELECT prune_at FROM $schema.sessions WHERE prune_at <> 0 ORDER BY prune_at "
                  "LIMIT 1), (SELECT min(next_at) FROM $schema.search_paths))"),
      first_leased(
          s,
          "SELECT least((SELECT look_at FROM $schema.leased WHERE node <> $1 ORDER BY look_at "
          "LIMIT 1), (SELECT look_at FROM $schema.sessions WHERE look_at <> 0 ORDER BY "
          "look_at LIMIT 1))"),
      totals(s,
             "SELECT coalesce(sum(waiting + scheduled + available + running + retryable), "
             "0)::bigint, coalesce(sum(completed + cancelled + expired + dead), 0)::bigint FROM "
             "$schema.job_counts"),
      // Transactions of other clients that create queues do not increment a version, because that
      // would block all others that do until they end. The number of queues shows the change.
      versions(s,
               "SELECT what, version FROM $schema.versions UNION ALL SELECT 'number of queues', "
               "count(*) FROM $schema.queues"),
      keep_setting(s,
                   "INSERT INTO $schema.settings AS s (name, value) VALUES ($1, $2) ON CONFLICT "
                   "(name) DO UPDATE SET value = excluded.value WHERE s.value <> excluded.value"),
      available(
          s,
          "SELECT queue, sum(available)::bigint, sum(running)::bigint FROM $schema.job_counts "
          "WHERE queue <> 0 GROUP BY queue"),
      find_move(s, "SELECT place FROM $schema.moves WHERE what = $1") {}

NodeStatements::NodeStatements(std::string_view s)
    : durability(s,
                 "SELECT current_setting('synchronous_commit'), (SELECT count(*) FROM "
                 "pg_stat_replication WHERE sync_state IN ('sync', 'quorum')), "
                 "pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', "
                 "current_setting('synchronous_standby_names')"),
      write_probe(s, "SELECT pg_current_xact_id()::text"),
      health(s,
             "SELECT greatest(0, (SELECT max((extract(epoch FROM clock_timestamp() - since) * "
             "1000000)::bigint) FROM (SELECT xact_start AS since FROM pg_stat_activity WHERE "
             "backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> "
             "'autovacuum worker' UNION ALL SELECT prepared FROM pg_prepared_xacts) AS held)), "
             "(SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE "
             "schemaname = $1), (SELECT max((extract(epoch FROM replay_lag) * 1000000)::bigint) "
             "FROM pg_stat_replication)"),
      node_number(s, "SELECT nextval('$schema.node_numbers')"),
      lock_nodes(s, "LOCK TABLE $schema.nodes IN SHARE ROW EXCLUSIVE MODE"),
      node_joins(s,
                 "INSERT INTO $schema.nodes (id, incarnation, address, program, started_at, "
                 "seen_at) VALUES (nextval('$schema.node_numbers'), $1, '', $2, $3, $3) RETURNING "
                 "id"),
      nodes_alive(s, "SELECT count(*) FROM $schema.nodes WHERE seen_at > $1 AND incarnation <> $2"),
      node_beats(
          s,
          "UPDATE $schema.nodes SET seen_at = $2, info = (info::jsonb || $3::jsonb)::text WHERE "
          "id = $1"),
      others_say(s,
                 "SELECT info, $schema.now_us() - seen_at FROM $schema.nodes WHERE id <> $1 AND "
                 "seen_at > $schema.now_us() - $2 ORDER BY id"),
      waiting_queues(s,
                     "SELECT q.name FROM $schema.queues q WHERE q.id = ANY($1) AND NOT q.paused "
                     "AND (EXISTS (SELECT 1 FROM $schema.ready r WHERE r.queue = q.id) OR EXISTS "
                     "(SELECT 1 FROM $schema.packs b WHERE b.queue = q.id) OR EXISTS "
                     "(SELECT 1 FROM $schema.held_back h WHERE h.queue = q.id))"),
      node_leaves(s, "DELETE FROM $schema.nodes WHERE id = $1"),
      drop_leased(s, "DELETE FROM $schema.leased"),
      reset_jobs(s,
                 "UPDATE $schema.jobs j SET lease_until = $1 + greatest(lease, kept), "
                 "kept = greatest(lease, kept), claimed_at = $1 FROM (SELECT DISTINCT unnest(ids) "
                 "AS id FROM "
                 "$schema.leased) l WHERE j.id = l.id "
                 "AND j.state = 3 RETURNING " MS_COLUMNS),
      nothing_lost(s, "SELECT 1 FROM $schema.awake"),
      wake(s,
           "INSERT INTO $schema.awake SELECT true WHERE NOT EXISTS (SELECT 1 FROM $schema.moves "
           "WHERE what = 'moved') ON CONFLICT DO NOTHING RETURNING 1"),
      lengthen_jobs(s,
                    "WITH l AS MATERIALIZED (SELECT id FROM $schema.jobs WHERE id IN (SELECT "
                    "unnest(ids) FROM $schema.leased) AND state = 3 ORDER BY id FOR UPDATE) UPDATE "
                    "$schema.jobs j SET lease_until = greatest(lease_until, $1 + greatest(lease, "
                    "kept)) FROM l "
                    "WHERE j.id = l.id RETURNING j.id, j.lease_until") {}

#undef MS_COLUMNS

}  // namespace mainspring::pg
