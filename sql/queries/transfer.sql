-- name: select_moved
SELECT place FROM moves WHERE what = 'moved';

-- name: running
SELECT j.id, g.token + e.key, g.worker, g.claimed_at, coalesce(n.lease, g.lease),
  coalesce(n.version, j.version + 1), coalesce(n.cancel_requested, 0), n.cancel_reason,
  coalesce(n.kept, 0)
FROM grants g CROSS JOIN json_each(g.ids) e CROSS JOIN jobs j ON j.id = e.value
LEFT JOIN lease_notes n ON n.id = j.id
WHERE j.state = 2 AND j.token < g.token + e.key;
-- postgres: SELECT j.id, g.token + e.key, g.worker, g.claimed_at, coalesce(n.lease, g.lease),
-- postgres: coalesce(n.version, j.version + 1), coalesce(n.cancel_requested, 0), n.cancel_reason,
-- postgres: coalesce(n.kept, 0) FROM grants g CROSS JOIN json_each(g.ids) e JOIN jobs j ON j.id =
-- postgres: e.value LEFT JOIN lease_notes n ON n.id = j.id WHERE j.state = 2 AND j.token < g.token
-- postgres: + e.key;

-- name: job
SELECT j.version, j.token, j.state, q.name, k.name, j.priority, j.run_at, j.attempt, j.max_attempts,
  j.flags, j.started_at, j.finished_at, j.expires_at, b.created_at, b.args, b.max_attempts,
  b.timeout, b.tags, b.headers, b.correlation_id, b.reply_to, b.unique_key, b.schedule, e.id,
  e.result, e.checkpoint, e.progress_value, e.progress_text, e.reason, e.description, u.until,
  b.follow_ups, b.session, b.reply_session, w.workflow, w.step, w.undo, b.limit_key, (SELECT since
  FROM quarantine z WHERE z.id = j.id), e.warning
FROM jobs j JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue
JOIN kinds k ON k.id = j.kind LEFT JOIN extras e ON e.id = j.id
LEFT JOIN uniques u ON u.queue = j.queue AND u.key = b.unique_key AND u.id = j.id
LEFT JOIN workflow_jobs w ON w.job = j.id
WHERE j.id = ?;

-- name: job_errors
SELECT seq, attempt, at, ran_for, worker, message, program_end
FROM errors
WHERE job = ? ORDER BY seq;

-- name: memos
SELECT name, result FROM memos WHERE job = ? ORDER BY name;

-- name: stamps
SELECT id, version, token, state FROM jobs WHERE id >= ? AND id < ? ORDER BY id;

-- name: finished_stamps
SELECT prune_at, seq, length(ids) FROM finished WHERE prune_at >= ? AND prune_at < ?;

-- name: key_stamps
SELECT expires_at, key, length(ids) FROM idempotency WHERE expires_at >= ? AND expires_at < ?;

-- name: window_stamps
SELECT until, key, id FROM uniques WHERE ended IS NOT NULL AND until >= ? AND until < ?;

-- name: windows
SELECT q.name, u.key, u.id, u.ended, u.until
FROM uniques u JOIN queues q ON q.id = u.queue
WHERE u.ended IS NOT NULL AND u.until >= ? AND u.until < ?;

-- name: history_stamps
SELECT at, span || ',' || series, enqueued + started + completed + failed + dead + cancelled
FROM history
WHERE span IN (60000000, 3600000000) AND at >= ? AND at < ?;

-- name: history
SELECT h.span, h.at, s.queue, s.kind, h.enqueued, h.started, h.completed, h.failed, h.dead,
  h.cancelled, h.wait, h.run
FROM history h JOIN history_series s ON s.id = h.series
WHERE h.span IN (60000000, 3600000000) AND h.at >= ? AND h.at < ?;

-- name: workflow_stamps
SELECT id, data, coalesce(wake_at, 0) + coalesce(finished_at, 0)
FROM workflows
WHERE id >= ? AND id < ?;

-- name: workflows
SELECT id, name, key, data, state, wake_at, finished_at
FROM workflows
WHERE id >= ? AND id < ? ORDER BY id;

-- name: workflow_rows
SELECT workflow, kind, number, text
FROM workflow_rows
WHERE (workflow, kind, number) > (?1, ?2, ?3) AND workflow < ?4 UNION ALL SELECT workflow, kind,
  number, text
FROM workflow_texts
WHERE (workflow, kind, number) > (?1, ?2, ?3) AND workflow < ?4
ORDER BY workflow, kind, number LIMIT ?5;

-- name: finished
SELECT prune_at, seq, at, ids
FROM finished
WHERE prune_at >= ? AND prune_at < ? ORDER BY prune_at, seq;

-- name: keys
SELECT key, fingerprint, expires_at, ids FROM idempotency WHERE expires_at >= ? AND expires_at < ?;

-- name: ledger
SELECT seq, version, nominal, until, count, source, state, past_due, job, reason, note, decided_at
FROM ledger
WHERE schedule = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: audit
SELECT seq, at, who, origin, action, object, before, after, hash
FROM audit
WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: insert_jobs
INSERT INTO jobs (id, queue, kind, state, priority, run_at, attempt, max_attempts, token, version,
  flags, started_at, finished_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_extras
INSERT INTO extras (id, result, checkpoint, progress_value, progress_text, reason, description,
  warning)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_errors
INSERT INTO errors (job, seq, attempt, at, worker, message, ran_for, program_end)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_lease_notes
INSERT INTO lease_notes (id, version, lease, cancel_requested, cancel_reason, kept)
VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_expiring
INSERT INTO expiring (expires_at, id) VALUES (?, ?);

-- name: put_unique
INSERT OR REPLACE INTO uniques (queue, key, id, until) VALUES (?, ?, ?, ?);
-- postgres: INSERT INTO uniques (queue, key, id, until) VALUES (?, ?, ?, ?) ON CONFLICT (queue,
-- postgres: key) DO UPDATE SET id = excluded.id, until = excluded.until;

-- name: old_job
SELECT j.state, j.run_at, j.expires_at, j.queue, b.unique_key
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id = ?;

-- name: insert_memos
INSERT INTO memos (job, name, result) VALUES (?, ?, ?);

-- name: delete_unique
DELETE FROM uniques WHERE queue = ? AND key = ? AND id = ? AND ended IS NULL;

-- name: put_job_counts
INSERT OR REPLACE INTO job_counts (id, a) VALUES (?, ?);
-- postgres: INSERT INTO job_counts_log (id, a) VALUES (?, ?);

-- name: put_copied_blocks
INSERT OR REPLACE INTO copied_blocks (section, block, rows, stamp) VALUES (?, ?, ?, ?);
-- postgres: INSERT INTO copied_blocks (section, block, rows, stamp) VALUES (?, ?, ?, ?) ON CONFLICT
-- postgres: (section, block) DO UPDATE SET rows = excluded.rows, stamp = excluded.stamp;

-- name: delete_copied_blocks
DELETE FROM copied_blocks WHERE section = ? AND block = ?;

-- name: new_identity
UPDATE moves SET store = lower(hex(randomblob(16))) WHERE what = 'self';
-- postgres: UPDATE moves SET store = replace(gen_random_uuid()::text, '-', '') WHERE what = 'self';

-- name: update_queues
UPDATE queues
SET paused = ?, retention_completed = ?, retention_dead = ?, limits = ?, meter = ?, opens_at = ?,
  pause = ?
WHERE id = ?;

-- name: delete_search_paths
DELETE FROM search_paths WHERE queue = ?;

-- name: insert_key_meters
INSERT INTO key_meters (queue, key, meter) VALUES (?, ?, ?);

-- name: insert_breakers
INSERT INTO breakers (name, settings, state) VALUES (?, ?, ?);

-- name: insert_marks
INSERT INTO marks (id, at, text, who, source) VALUES (?, ?, ?, ?, ?);

-- name: insert_saved_views
INSERT INTO saved_views (name, page, query, who, updated_at) VALUES (?, ?, ?, ?, ?);

-- name: insert_schedules
INSERT INTO schedules (name, id, version, definition, paused_reason, skip_reason, paused, next,
  next_fire, skip_before, fired, last_job, remaining, last_fired, timeout_override, created_at,
  updated_at, next_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: trim_ledger
DELETE FROM ledger WHERE schedule = ? AND seq < ?;

-- name: delete_orphaned_ticks
DELETE FROM ledger WHERE schedule NOT IN (SELECT id FROM schedules);

-- name: delete_removed_schedules
DELETE FROM removed_schedules;

-- name: mark_all_sessions
UPDATE sessions SET changed_at = -1;

-- name: mark_session
UPDATE sessions SET changed_at = -1 WHERE queue = ? AND key = ?;

-- name: insert_sessions
INSERT INTO sessions (queue, key, jobs, head, stop, stopped_by, worker, token, lease, state_bytes,
  changed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (queue, key) DO UPDATE
SET jobs = ?3, head = ?4, stop = ?5, stopped_by = ?6, worker = ?7, token = ?8, lease = ?9,
  state_bytes = ?10, changed_at = ?11;

-- name: put_session_states
INSERT OR REPLACE INTO session_states (session, state) SELECT id, ?3
FROM sessions
WHERE queue = ?1 AND key = ?2;
-- postgres: INSERT INTO session_states (session, state) SELECT id, ?3 FROM sessions WHERE queue =
-- postgres: ?1 AND key = ?2 ON CONFLICT (session) DO UPDATE SET state = excluded.state;

-- name: delete_state
DELETE FROM session_states WHERE session = (SELECT id FROM sessions WHERE queue = ? AND key = ?);

-- name: delete_marked_states
DELETE FROM session_states WHERE session IN (SELECT id FROM sessions WHERE changed_at = -1);

-- name: delete_marked_sessions
DELETE FROM sessions WHERE changed_at = -1;

-- name: insert_tokens
INSERT INTO tokens (name, digest, scopes, rate, created_at, created_by, expires_at, revoked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_named_leases
INSERT INTO named_leases (name, state, holder, token, ttl, since, value)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_triggers
INSERT INTO triggers (name, definition, state, secret) VALUES (?, ?, ?, ?);

-- name: delete_all_events
DELETE FROM trigger_events;

-- name: delete_event
DELETE FROM trigger_events WHERE name = ? AND seq = ?;

-- name: update_audit_marks
UPDATE audit_marks SET seq = ?2, hash = ?3 WHERE id = ?1 AND seq <> ?2;

-- name: update_job_counts
UPDATE job_counts
SET a = ?, b = ?, c = NULL, d = (SELECT coalesce(max(id), 0) + 1 FROM sessions), e = ?
WHERE id = 0;
-- postgres: INSERT INTO job_counts_log (id, a, b, d, e, f, g) SELECT 0, ?, ?, (SELECT
-- postgres: coalesce(max(id), 0) + 1 FROM sessions), ?, f, g FROM job_counts WHERE id = 0;

-- name: raise_last_schedule
UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'schedules';
-- postgres: SELECT setval('schedules_id_seq', greatest(last_value, ?)) FROM schedules_id_seq;

-- name: insert_last_schedule
INSERT INTO sqlite_sequence (name, seq) VALUES ('schedules', ?);
-- postgres: SELECT setval('schedules_id_seq', ?);

-- name: last_ticks
SELECT schedule, max(seq) FROM ledger GROUP BY schedule;

-- name: end_copying
DELETE FROM moves WHERE what = 'copying';

-- name: load_moves
SELECT store, place FROM moves WHERE what = ?;

-- name: put_moves
INSERT OR REPLACE INTO moves (what, store, place, at) VALUES (?, ?, ?, ?);
-- postgres: INSERT INTO moves (what, store, place, at) VALUES (?, ?, ?, ?) ON CONFLICT (what) DO
-- postgres: UPDATE SET store = excluded.store, place = excluded.place, at = excluded.at;

-- name: load_queues
SELECT q.name, q.paused, q.retention_completed, q.retention_dead, t.a, t.b, t.c, t.d, t.e, t.f, t.g,
  t.h, t.i, t.j, t.k, q.limits, q.meter, q.opens_at, q.pause
FROM queues q LEFT JOIN job_counts t ON t.id = q.id ORDER BY q.name;

-- name: load_meters
SELECT m.key, m.meter FROM queues q JOIN key_meters m ON m.queue = q.id WHERE q.name = ?;

-- name: load_breakers
SELECT name, settings, coalesce(state, '') FROM breakers ORDER BY name;

-- name: load_schedules
SELECT name, id, version, definition, paused_reason, skip_reason, paused, next, next_fire,
  skip_before, fired, last_job, remaining, last_fired, timeout_override, created_at, updated_at,
  next_seq
FROM schedules ORDER BY name;

-- name: load_removed_schedules
SELECT name, version FROM removed_schedules;

-- name: load_schedule_jobs
SELECT t.job, t.schedule, j.state = 0 AND j.flags & 32768 = 0
FROM schedule_jobs t JOIN jobs j ON j.id = t.job ORDER BY t.job;

-- name: last_schedule
SELECT seq FROM sqlite_sequence WHERE name = 'schedules';
-- postgres: SELECT last_value FROM schedules_id_seq WHERE is_called;

-- name: load_sessions
SELECT q.name, s.key, s.head, s.jobs, s.stop, s.stopped_by, s.worker, s.token, s.lease, t.state,
  s.changed_at
FROM sessions s JOIN queues q ON q.id = s.queue
LEFT JOIN session_states t ON t.session = s.id ORDER BY q.name, s.key;

-- name: load_tokens
SELECT name, digest, scopes, rate, created_at, created_by, expires_at, revoked_at
FROM tokens ORDER BY name;

-- name: load_named_leases
SELECT name, holder, value, state, token, ttl, since FROM named_leases WHERE name <> ? ORDER BY name;

-- name: load_triggers
SELECT name, definition, state, secret FROM triggers ORDER BY name;

-- name: load_trigger_events
SELECT name, seq, event, fired_at, made_at, job, reason FROM trigger_events ORDER BY name, seq;

-- name: load_marks
SELECT id, at, text, who, source FROM marks ORDER BY id;

-- name: delete_leader_lease
DELETE FROM named_leases WHERE name = 'mainspring/leader';

-- name: queue_ids
SELECT name, id FROM queues;

-- name: kind_ids
SELECT name, id FROM kinds;

-- name: load_grants
SELECT token, ids FROM grants;

-- name: live_blocks
SELECT id, a FROM job_counts WHERE id >= 4294967296;

-- name: load_copied_blocks
SELECT block, rows, stamp FROM copied_blocks WHERE section = ?;

-- name: delete_finished
DELETE FROM finished WHERE prune_at >= ? AND prune_at < ?;

-- name: delete_idempotency
DELETE FROM idempotency WHERE expires_at >= ? AND expires_at < ?;

-- name: delete_windows
DELETE FROM uniques WHERE ended IS NOT NULL AND until >= ? AND until < ?;

-- name: put_window
INSERT OR REPLACE INTO uniques (queue, key, id, until, ended) VALUES (?, ?, ?, ?, ?);
-- postgres: INSERT INTO uniques (queue, key, id, until, ended) VALUES (?, ?, ?, ?, ?) ON CONFLICT
-- postgres: (queue, key) DO UPDATE SET id = excluded.id, until = excluded.until, ended =
-- postgres: excluded.ended;

-- name: delete_history
DELETE FROM history WHERE span IN (60000000, 3600000000) AND at >= ? AND at < ?;

-- name: insert_history_series
INSERT INTO history_series (queue, kind, last_at)
VALUES (?1, ?2, ?3) ON CONFLICT (queue, kind) DO UPDATE
SET last_at = CASE WHEN history_series.last_at < ?3 THEN ?3 ELSE history_series.last_at END;

-- name: insert_history
INSERT INTO history (span, at, series, enqueued, started, completed, failed, dead, cancelled, wait,
  run) SELECT ?3, ?4, id, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
FROM history_series
WHERE queue = ?1 AND kind = ?2;

-- name: delete_workflows
DELETE FROM workflows WHERE id >= ? AND id < ?;

-- name: insert_workflows
INSERT INTO workflows (id, name, key, data, state, wake_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: count_leases
SELECT count(*) FROM named_leases WHERE name <> 'mainspring/leader';

-- name: delete_workflow_texts
DELETE FROM workflow_texts WHERE workflow >= ? AND workflow < ?;

-- name: delete_workflow_rows
DELETE FROM workflow_rows WHERE workflow >= ? AND workflow < ?;
