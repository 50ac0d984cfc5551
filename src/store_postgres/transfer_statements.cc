// SQL texts of PostgresTarget. Times in microseconds; arrays instead of many executions.
#include "store_postgres/transfer_statements.h"

namespace mainspring::pg {
namespace {

constexpr std::string_view kHolds =
    "SELECT (SELECT count(*) FROM $schema.jobs), (SELECT count(*) FROM $schema.queues), (SELECT "
    "count(*) FROM $schema.schedules), (SELECT count(*) FROM $schema.named_leases WHERE name <> "
    "$1), (SELECT count(*) FROM $schema.tokens), (SELECT max(seq) FROM $schema.audit_marks), "
    "(SELECT count(*) FROM $schema.triggers), (SELECT count(*) FROM $schema.breakers), (SELECT "
    "count(*) FROM $schema.marks), (SELECT count(*) FROM $schema.saved_views)";
constexpr std::string_view kMarkCopying =
    "INSERT INTO $schema.moves AS m (what, store, place, at, run) VALUES ('copying', $1, $2, $3, "
    "$4) ON CONFLICT (what) DO UPDATE SET store = excluded.store, place = excluded.place, run = "
    "excluded.run";
constexpr std::string_view kInsert =
    "INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, "
    "lease_until, lease, claimed_at, run_at, started_at, finished_at, expires_at, created_at, "
    "timeout, schedule, queue, kind, budget, worker, unique_key, correlation_id, reply_to, tags, "
    "headers, args, follow_ups, session, reply_session, limit_key, trigger_depth, kept) SELECT id, "
    "state, flags, priority, attempt, max_attempts, version, "
    "token, "
    "lease_until, lease, claimed_at, run_at, started_at, finished_at, expires_at, created_at, "
    "timeout, schedule, queue, kind, budget, worker, unique_key, correlation_id, reply_to, "
    "string_to_array(tags, E'\\x1f'), headers, args, follow_ups, session, reply_session, "
    "limit_key, nullif(depth, 0), nullif(kept, 0) FROM unnest($1::bigint[], "
    "$2::bigint[], "
    "$3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], "
    "$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], "
    "$15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], "
    "$21::bigint[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], "
    "$28::text[], $29::text[], $30::text[], $31::text[], $32::text[], $33::bigint[], "
    "$34::bigint[]) AS u(id, "
    "state, flags, "
    "priority, attempt, "
    "max_attempts, version, "
    "token, "
    "lease_until, lease, claimed_at, run_at, started_at, finished_at, expires_at, created_at, "
    "timeout, schedule, queue, kind, budget, worker, unique_key, correlation_id, reply_to, tags, "
    "headers, args, follow_ups, session, reply_session, limit_key, depth, kept)";
constexpr std::string_view kExtras =
    "INSERT INTO $schema.extras (id, progress_value, progress_text, cancel_reason, reason, "
    "description, result, checkpoint, warning) SELECT * FROM unnest($1::bigint[], $2::float8[], "
    "$3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])";
constexpr std::string_view kErrors =
    "INSERT INTO $schema.errors (job, seq, attempt, at, ran_for, worker, message, program_end) "
    "SELECT * FROM "
    "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], "
    "$7::text[], $8::text[])";
constexpr std::string_view kUniques =
    "INSERT INTO $schema.uniques (queue, key, id, until) SELECT * FROM unnest($1::bigint[], "
    "$2::text[], $3::bigint[], $4::bigint[]) ON CONFLICT (queue, key) DO UPDATE SET id = "
    "excluded.id, until = excluded.until, ended = NULL";
constexpr std::string_view kWindows =
    "INSERT INTO $schema.uniques (queue, key, id, until, ended) SELECT queue, key, id, until, "
    "ended FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], "
    "$5::bigint[]) AS u(queue, key, id, until, ended) ON CONFLICT (queue, key) DO UPDATE SET id = "
    "excluded.id, until = excluded.until, ended = excluded.ended";
constexpr std::string_view kNoWindows =
    "DELETE FROM $schema.uniques WHERE ended IS NOT NULL AND until >= $1 AND until < $2";
constexpr std::string_view kNoHistory =
    "DELETE FROM $schema.history WHERE series = ANY(ARRAY(SELECT id FROM $schema.history_series)) "
    "AND span = ANY('{60000000,3600000000}') AND at >= $1 AND at < $2";
constexpr std::string_view kKey =
    "INSERT INTO $schema.idempotency (key, expires_at, fingerprint, ids) VALUES ($1, $2, $3, "
    "$4) ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, fingerprint = "
    "excluded.fingerprint, ids = excluded.ids";
constexpr std::string_view kUnknownSessions = "UPDATE $schema.sessions SET jobs = -1";
constexpr std::string_view kHeads =
    "DELETE FROM $schema.session_jobs l USING $schema.sessions s WHERE s.head <> 0 AND "
    "l.session = s.id AND l.id = s.head";
constexpr std::string_view kLostPlaces =
    "DELETE FROM $schema.session_jobs l WHERE NOT EXISTS (SELECT 1 FROM "
    "$schema.sessions s WHERE s.id = l.session)";
constexpr std::string_view kNoLedgers =
    "DELETE FROM $schema.ledger l WHERE NOT EXISTS (SELECT 1 FROM $schema.schedules s "
    "WHERE s.id = l.schedule)";
constexpr std::string_view kMakeSessions =
    "INSERT INTO $schema.sessions (queue, key) SELECT DISTINCT queue, session "
    "FROM $schema.jobs WHERE id = ANY($1) AND session IS NOT NULL AND state NOT "
    "IN (4, 6, 7) ON CONFLICT DO NOTHING";
constexpr std::string_view kPlaces =
    "INSERT INTO $schema.session_jobs (session, id) SELECT s.id, j.id FROM "
    "$schema.jobs j JOIN $schema.sessions s ON s.queue = j.queue AND s.key = "
    "j.session WHERE j.id = ANY($1) AND j.state = 0 ON CONFLICT DO NOTHING";
constexpr std::string_view kReady =
    "INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at, "
    "session) SELECT j.queue, j.priority, j.kind, j.run_at, j.id, CASE WHEN "
    "j.started_at = 0 THEN j.expires_at ELSE 0 END, coalesce(s.id, 0) FROM "
    "$schema.jobs j LEFT JOIN $schema.sessions s ON s.queue = j.queue AND s.key "
    "= j.session WHERE j.id = ANY($1) AND j.state = 2";
constexpr std::string_view kNoPlaces =
    "DELETE FROM $schema.session_jobs l USING $schema.jobs j, $schema.sessions s "
    "WHERE j.id = ANY($1) AND s.queue = j.queue AND s.key = j.session AND "
    "l.session = s.id AND l.id = j.id";
constexpr std::string_view kSession =
    "INSERT INTO $schema.sessions AS s (queue, key, head, jobs, stop, stopped_by, token, "
    "lease, kept, lease_until, look_at, prune_at, changed_at, state_bytes, worker, state) "
    "VALUES ($1::bigint, $2, $3, $4, $5::bigint, $6, $7, $8, $8, $9, $9, $10, $11, "
    "$12::bigint, $13, $14) ON CONFLICT (queue, key) DO UPDATE SET head = excluded.head, "
    "first = 0, jobs = excluded.jobs, stop = excluded.stop, stopped_by = "
    "excluded.stopped_by, token = excluded.token, lease = excluded.lease, kept = "
    "excluded.kept, lease_until = excluded.lease_until, look_at = excluded.look_at, "
    "prune_at = excluded.prune_at, changed_at = excluded.changed_at, state_bytes = "
    "excluded.state_bytes, worker = excluded.worker, state = excluded.state";
constexpr std::string_view kDead =
    "INSERT INTO $schema.dead_letter (id, queue, kind, fingerprint, at) SELECT * FROM "
    "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])";
constexpr std::string_view kLinks =
    "INSERT INTO $schema.schedule_jobs (job, schedule, waits) SELECT job, schedule, waits <> "
    "0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(job, schedule, waits)";
constexpr std::string_view kSchedule =
    "INSERT INTO $schema.schedules (name, id, version, definition, queue, paused_reason, "
    "skip_reason, paused, next, next_fire, skip_before, fired, last_job, remaining, last_fired, "
    "timeout_override, created_at, updated_at, next_seq) OVERRIDING SYSTEM VALUE VALUES ($1, $2, "
    "$3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";
constexpr std::string_view kSteps =
    "INSERT INTO $schema.workflow_jobs (job, workflow, step, undo) SELECT job, workflow, "
    "step, undo <> 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) "
    "AS u(job, workflow, step, undo)";
constexpr std::string_view kWorkflowRows =
    "INSERT INTO $schema.workflow_rows AS r (workflow, kind, number, text) SELECT "
    "* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) ON "
    "CONFLICT (workflow, kind, number) DO UPDATE SET text = excluded.text";
constexpr std::string_view kNoKeyMeters =
    "WITH k AS (DELETE FROM $schema.key_meters WHERE queue = $1::bigint) UPDATE "
    "$schema.queues SET keys_open_at = NULL WHERE id = $1::bigint AND keys_open_at "
    "IS NOT NULL";
constexpr std::string_view kKeyMeters =
    "WITH k AS (INSERT INTO $schema.key_meters (queue, key, meter, opens_at, "
    "forgotten_at) SELECT $1::bigint, * FROM unnest($2::text[], $3::text[], "
    "$4::bigint[], $5::bigint[])) UPDATE $schema.queues SET keys_open_at = (SELECT "
    "min(at) FROM unnest($4::bigint[]) AS a(at)) WHERE id = $1::bigint";
constexpr std::string_view kJobCounts =
    "INSERT INTO $schema.job_counts (node, batch, at, queue, enqueued, pruned, expired, "
    "waiting, scheduled, available, running, completed, retryable, cancelled, dead) VALUES "
    "(0, 0, 0, $1::bigint, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
constexpr std::string_view kQuarantined =
    "WITH j AS (UPDATE $schema.jobs j SET lost = nullif(u.lost, 0), quarantined = "
    "nullif(u.since, 0) FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(id, lost, "
    "since) WHERE j.id = u.id RETURNING j.id, j.queue, j.quarantined) INSERT INTO "
    "$schema.quarantine (id, queue) SELECT id, queue FROM j WHERE quarantined IS NOT NULL";
constexpr std::string_view kRunningKeys =
    "WITH gone AS (DELETE FROM $schema.running_keys b WHERE NOT EXISTS (SELECT 1 FROM "
    "$schema.jobs j WHERE j.id = b.id)) INSERT INTO $schema.running_keys (queue, key, id) SELECT "
    "j.queue, j.limit_key, j.id FROM "
    "$schema.jobs j JOIN $schema.queues q ON q.id = j.queue WHERE j.state = 3 AND j.limit_key IS "
    "NOT NULL AND q.limits LIKE '%\"per_key\":{\"concurrency\":%' UNION ALL SELECT j.queue, '', "
    "j.id FROM $schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id "
    "= j.kind WHERE j.state = 3 AND q.limits LIKE '%\"costs\":{%' AND (q.limits::jsonb -> 'costs') "
    "? k.name ON CONFLICT DO NOTHING";
constexpr std::string_view kWorkflow =
    "INSERT INTO $schema.workflows (id, name, key, data, state, wake_at, finished_at) "
    "VALUES ($1, $2, $3, $4, $5::bigint, $6, $7)";
constexpr std::string_view kTick =
    "INSERT INTO $schema.ledger (schedule, seq, version, nominal, until, count, source, "
    "state, past_due, job, reason, note, decided_at) VALUES ($1, $2, $3, $4, $5, $6, "
    "$7::bigint, $8::bigint, $9, $10, $11, $12, $13)";
constexpr std::string_view kLease =
    "INSERT INTO $schema.named_leases (name, state, token, ttl, kept, ends, since, holder, "
    "value) VALUES ($1, $2::bigint, $3, $4, $4, $5, $6, $7, $8)";
constexpr std::string_view kCopiedMark =
    "INSERT INTO $schema.moves (what, store, place, at) SELECT 'copied', store, place, "
    "$1 FROM $schema.moves WHERE what = 'copying' ON CONFLICT (what) DO UPDATE SET "
    "store = excluded.store, place = excluded.place, at = excluded.at";

constexpr std::string_view kQueue =
    "UPDATE $schema.queues SET paused = $2, retention_completed = $3, retention_dead = $4, "
    "limits = $5, meter = $6, opens_at = $7, settings = $8, pause = $9 WHERE id = $1::bigint";
constexpr std::string_view kToken =
    "INSERT INTO $schema.tokens (name, digest, scopes, rate, created_at, created_by, "
    "expires_at, revoked_at) VALUES ($1, $2, $3, $4::bigint, $5, $6, $7, $8)";
constexpr std::string_view kChartMark =
    "INSERT INTO $schema.marks (id, at, text, who, source) VALUES ($1, $2, $3, $4, $5)";
constexpr std::string_view kChartMarkNumber =
    "SELECT setval('$schema.marks_id_seq', (SELECT coalesce(max(id), 0) FROM $schema.marks) + "
    "1, false)";
constexpr std::string_view kView =
    "INSERT INTO $schema.saved_views (name, page, query, who, updated_at) VALUES ($1, $2, $3, "
    "$4, $5)";
constexpr std::string_view kAuditRow =
    "INSERT INTO $schema.audit (seq, at, who, origin, action, object, before, after, hash) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
constexpr std::string_view kNoWorkflowRows =
    "DELETE FROM $schema.workflow_rows WHERE workflow >= $1 AND workflow < $2";
constexpr std::string_view kNumbers =
    "SELECT setval('$schema.job_ids', greatest($1 - 1, 1), $1 > 1), "
    "setval('$schema.tokens_given', greatest($2 - 1, 1), $2 > 1)";
constexpr std::string_view kRowNumber =
    "SELECT setval('$schema.row_numbers', greatest($1, (SELECT last_value FROM "
    "$schema.row_numbers)) + 1)";
constexpr std::string_view kTrigger =
    "INSERT INTO $schema.triggers (name, definition, state, secret, ends, of_queue) VALUES ($1, "
    "$2, "
    "$3, $4, $5::bigint, $6)";
constexpr std::string_view kTriggerEvent =
    "INSERT INTO $schema.trigger_events (name, seq, event, fired_at, made_at, job, reason) VALUES "
    "($1, $2, $3, $4, $5, $6, $7)";

}  // namespace

PostgresTarget::Statements::Statements(std::string_view s)
    : begin(s, "BEGIN ISOLATION LEVEL READ COMMITTED"),
      still_ours(s, "SELECT 1 FROM $schema.moves WHERE what = 'copying' AND run = $1 FOR UPDATE"),
      commit(s, "COMMIT"),
      roll_back(s, "ROLLBACK"),
      nodes_alive(s, "SELECT count(*) FROM $schema.nodes WHERE seen_at > $schema.now_us() - $1"),
      lock_nodes(s, "LOCK TABLE $schema.nodes IN SHARE ROW EXCLUSIVE MODE"),
      holds(s, kHolds),
      mark_copying(s, kMarkCopying),
      running_keys(s, kRunningKeys),
      no_leader(s, "DELETE FROM $schema.named_leases WHERE name = $1"),
      copied(s, "SELECT block, rows, stamp FROM $schema.copied_blocks WHERE section = $1"),
      note(s,
           "INSERT INTO $schema.copied_blocks (section, block, rows, stamp) VALUES ($1, $2, $3, "
           "$4) ON CONFLICT (section, block) DO UPDATE SET rows = excluded.rows, stamp = "
           "excluded.stamp"),
      no_note(s, "DELETE FROM $schema.copied_blocks WHERE section = $1 AND block = $2"),
      queues(s, "SELECT name, id FROM $schema.queues"),
      kinds(s, "SELECT name, id FROM $schema.kinds"),
      queue_of(s, "INSERT INTO $schema.queues (name) VALUES ($1) RETURNING id"),
      kind_of(s, "INSERT INTO $schema.kinds (name) VALUES ($1) RETURNING id"),
      last_finished(s, "SELECT coalesce(max(seq), 0) FROM $schema.finished"),
      stamps(s,
             "SELECT id, version, token, state FROM $schema.jobs WHERE id >= $1 AND id < $2 ORDER "
             "BY id"),
      insert(s, kInsert),
      extras(s, kExtras),
      errors(s, kErrors),
      leased(s,
             "INSERT INTO $schema.leased (look_at, seq, node, ids) VALUES ($1, "
             "nextval('$schema.row_numbers'), 0, $2)"),
      uniques(s, kUniques),
      steps(s, kSteps),
      memos(s,
            "INSERT INTO $schema.memos (job, name, result) SELECT * FROM unnest($1::bigint[], "
            "$2::text[], $3::text[])"),
      deferred(s,
               "WITH j AS (UPDATE $schema.jobs SET deferred = true WHERE id = ANY($1)) INSERT INTO "
               "$schema.deferred (id) SELECT unnest($1::bigint[])"),
      quarantined(s, kQuarantined),
      dead(s, kDead),
      no_paths(s, "DELETE FROM $schema.search_paths WHERE queue = $1::bigint"),
      paths(s,
            "INSERT INTO $schema.search_paths (queue, path, stage, above, next_at) SELECT "
            "$1::bigint, u.path, 0, 0, 0 FROM unnest($2::text[]) AS u(path)"),
      remove{
          Statement(s, kNoPlaces),
          Statement(s,
                    "DELETE FROM $schema.ready r USING $schema.jobs j WHERE j.id = ANY($1) AND "
                    "j.state = 2 AND r.queue = j.queue AND r.priority = j.priority AND r.run_at "
                    "= j.run_at AND r.id = j.id"),
          Statement(s,
                    "DELETE FROM $schema.due d USING $schema.jobs j WHERE j.id = ANY($1) AND "
                    "j.state IN (1, 5) AND d.run_at = j.run_at AND d.id = j.id"),
          Statement(s,
                    "DELETE FROM $schema.expiring e USING $schema.jobs j WHERE j.id = ANY($1) "
                    "AND j.expires_at <> 0 AND e.expires_at = j.expires_at AND e.id = j.id"),
          Statement(s,
                    "DELETE FROM $schema.uniques u USING $schema.jobs j WHERE j.id = ANY($1) AND "
                    "u.queue = j.queue AND u.key = j.unique_key AND u.id = j.id AND u.ended IS "
                    "NULL"),
          Statement(s, "DELETE FROM $schema.dead_letter WHERE id = ANY($1)"),
          Statement(s, "DELETE FROM $schema.deferred WHERE id = ANY($1)"),
          Statement(s, "DELETE FROM $schema.quarantine WHERE id = ANY($1)"),
          Statement(s, "DELETE FROM $schema.extras WHERE id = ANY($1)"),
          Statement(s, "DELETE FROM $schema.errors WHERE job = ANY($1)"),
          Statement(s, "DELETE FROM $schema.workflow_jobs WHERE job = ANY($1)"),
          Statement(s, "DELETE FROM $schema.memos WHERE job = ANY($1)"),
          Statement(s, "DELETE FROM $schema.jobs WHERE id = ANY($1)")},
      lines{Statement(s, kMakeSessions), Statement(s, kPlaces), Statement(s, kReady),
            Statement(
                s,
                "INSERT INTO $schema.due (run_at, id) SELECT run_at, id FROM $schema.jobs "
                "WHERE id = ANY($1) AND state IN (1, 5) AND (state = 1 OR quarantined IS NULL)"),
            Statement(s,
                      "INSERT INTO $schema.expiring (expires_at, id) SELECT expires_at, id FROM "
                      "$schema.jobs WHERE id = ANY($1) AND expires_at <> 0 AND started_at = 0 AND "
                      "state NOT IN (4, 6, 7)")},
      finished(s, "INSERT INTO $schema.finished (prune_at, seq, at, ids) VALUES ($1, $2, $3, $4)"),
      no_finished(s, "DELETE FROM $schema.finished WHERE prune_at >= $1 AND prune_at < $2"),
      key(s, kKey),
      no_keys(s, "DELETE FROM $schema.idempotency WHERE expires_at >= $1 AND expires_at < $2"),
      windows(s, kWindows),
      no_windows(s, kNoWindows),
      no_history(s, kNoHistory),
      workflow(s, kWorkflow),
      no_workflows(s, "DELETE FROM $schema.workflows WHERE id >= $1 AND id < $2"),
      workflow_rows(s, kWorkflowRows),
      no_workflow_rows(s, kNoWorkflowRows),
      queue(s, kQueue),
      no_key_meters(s, kNoKeyMeters),
      key_meters(s, kKeyMeters),
      no_job_counts(s, "DELETE FROM $schema.job_counts"),
      job_counts(s, kJobCounts),
      schedule(s, kSchedule),
      no_schedule(s, "DELETE FROM $schema.schedules WHERE name = $1"),
      no_schedules(s, "DELETE FROM $schema.schedules"),
      trim(s, "DELETE FROM $schema.ledger WHERE schedule = $1 AND seq < $2"),
      no_ledgers(s, kNoLedgers),
      no_removed(s, "DELETE FROM $schema.removed_schedules"),
      removed(s, "INSERT INTO $schema.removed_schedules (name, version) VALUES ($1, $2)"),
      links(s, kLinks),
      gone_links(s, "DELETE FROM $schema.schedule_jobs WHERE job = ANY($1)"),
      no_links(s, "DELETE FROM $schema.schedule_jobs"),
      token(s, kToken),
      no_token(s, "DELETE FROM $schema.tokens WHERE name = $1"),
      no_tokens(s, "DELETE FROM $schema.tokens"),
      lease(s, kLease),
      no_lease(s, "DELETE FROM $schema.named_leases WHERE name = $1"),
      no_leases(s, "DELETE FROM $schema.named_leases"),
      session(s, kSession),
      no_session(s, "DELETE FROM $schema.sessions WHERE queue = $1::bigint AND key = $2"),
      unknown_sessions(s, kUnknownSessions),
      no_unknown_sessions(s, "DELETE FROM $schema.sessions WHERE jobs = -1"),
      heads(s, kHeads),
      lost_places(s, kLostPlaces),
      mark(s, "UPDATE $schema.audit_marks SET seq = $2, hash = $3 WHERE id = $1 AND seq <> $2"),
      prune_audit(s, "DELETE FROM $schema.audit WHERE seq <= $1"),
      numbers(s, kNumbers),
      schedule_number(s, "SELECT setval('$schema.schedules_id_seq', $1)"),
      row_number(s, kRowNumber),
      workflow_number(s, "SELECT setval('$schema.workflow_ids', greatest($1 - 1, 1), $1 > 1)"),
      breaker(s, "INSERT INTO $schema.breakers (name, settings, state) VALUES ($1, $2, $3)"),
      no_breaker(s, "DELETE FROM $schema.breakers WHERE name = $1"),
      no_breakers(s, "DELETE FROM $schema.breakers"),
      chart_mark(s, kChartMark),
      no_chart_mark(s, "DELETE FROM $schema.marks WHERE id = $1"),
      no_chart_marks(s, "DELETE FROM $schema.marks"),
      chart_mark_number(s, kChartMarkNumber),
      view(s, kView),
      no_view(s, "DELETE FROM $schema.saved_views WHERE name = $1"),
      no_views(s, "DELETE FROM $schema.saved_views"),
      trigger(s, kTrigger),
      no_trigger(s, "DELETE FROM $schema.triggers WHERE name = $1"),
      no_triggers(s, "DELETE FROM $schema.triggers"),
      trigger_event(s, kTriggerEvent),
      no_trigger_event(s, "DELETE FROM $schema.trigger_events WHERE name = $1 AND seq = $2"),
      no_trigger_events(s, "DELETE FROM $schema.trigger_events"),
      ledgers(s, "SELECT schedule, max(seq) FROM $schema.ledger GROUP BY schedule"),
      tick(s, kTick),
      last_audit(s, "SELECT coalesce(max(seq), 0) FROM $schema.audit"),
      audit(s, kAuditRow),
      durable(s, "SET LOCAL synchronous_commit TO DEFAULT"),
      drop_notes(s, "DROP TABLE IF EXISTS $schema.copied_blocks"),
      copied_mark(s, kCopiedMark),
      no_copying(s, "DELETE FROM $schema.moves WHERE what = 'copying'"),
      history(s) {}

}  // namespace mainspring::pg
