-- name: insert_job
INSERT INTO jobs (id, queue, kind, state, priority, run_at, attempt, max_attempts, token, version,
  flags, expires_at)
VALUES (?, ?, ?, ?, ?, ?, 0, ?, 0, 1, ?, ?);

-- name: insert_body
INSERT INTO bodies (id, created_at, args, max_attempts, timeout, tags, headers, correlation_id,
  reply_to, unique_key, schedule, follow_ups, session, reply_session, limit_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_body
UPDATE bodies
SET args = ?2, max_attempts = ?3, timeout = ?4, tags = ?5, headers = ?6, correlation_id = ?7,
  reply_to = ?8, follow_ups = ?9, reply_session = ?10, limit_key = ?11
WHERE id = ?1;

-- name: edit_body
UPDATE bodies SET args = coalesce(?2, args), tags = CASE WHEN ?3 THEN ?4 ELSE tags END WHERE id = ?1;

-- name: select_body
SELECT max_attempts, unique_key, schedule FROM bodies WHERE id = ?;

-- name: select_ended
SELECT q.name, k.name, j.state, j.attempt, e.result, e.reason, e.description, b.tags, b.headers,
  b.correlation_id, b.reply_to, b.follow_ups, b.reply_session, j.flags
FROM jobs j JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue
JOIN kinds k ON k.id = j.kind LEFT JOIN extras e ON e.id = j.id
WHERE j.id = ?;

-- name: select_progress
SELECT progress_value, progress_text FROM extras WHERE id = ? AND progress_value IS NOT NULL;

-- name: update_job
UPDATE jobs
SET kind = ?2, state = ?3, priority = ?4, run_at = ?5, attempt = ?6, max_attempts = ?7, token = ?8,
  version = ?9, flags = ?10, started_at = ?11, finished_at = ?12, expires_at = ?13
WHERE id = ?1;

-- name: finish_job
UPDATE jobs
SET state = ?2, run_at = ?3, attempt = ?4, token = ?5, version = ?6, flags = ?7, started_at = ?8,
  finished_at = ?9
WHERE id = ?1;

-- name: select_hot
SELECT queue, kind, state, priority, run_at, attempt, max_attempts, token, version, flags,
  started_at, finished_at, expires_at
FROM jobs
WHERE id = ?;

-- name: select_claim
SELECT b.timeout, b.args, b.headers, b.tags, b.correlation_id, b.reply_to, j.max_attempts,
  j.attempt, j.version, j.flags, j.started_at, j.expires_at, b.session
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id = ?;

-- name: select_fresh
SELECT timeout, args, headers, tags, correlation_id, reply_to, max_attempts FROM bodies WHERE id = ?;

-- name: select_checkpoint
SELECT checkpoint FROM extras WHERE id = ?;

-- name: insert_error
INSERT INTO errors (job, seq, attempt, at, worker, message, ran_for, program_end)
VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM errors WHERE job = ?1), ?2, ?3, ?4, ?5, ?6, ?7);

-- name: upsert_result
INSERT INTO extras (id, result)
VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE
SET result = excluded.result;

-- name: upsert_reason
INSERT INTO extras (id, reason, description)
VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE
SET reason = excluded.reason, description = excluded.description;

-- name: upsert_progress
INSERT INTO extras (id, progress_value, progress_text)
VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE
SET progress_value = excluded.progress_value, progress_text = excluded.progress_text;

-- name: upsert_checkpoint
INSERT INTO extras (id, checkpoint)
VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE
SET checkpoint = excluded.checkpoint;

-- name: forget_extras
UPDATE extras
SET checkpoint = NULL, progress_value = NULL, progress_text = NULL, warning = NULL
WHERE id = ?;

-- name: upsert_warning
INSERT INTO extras (id, warning)
VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE
SET warning = excluded.warning;

-- name: insert_due
INSERT INTO due (run_at, id) VALUES (?, ?);

-- name: delete_due
DELETE FROM due WHERE run_at = ? AND id = ?;

-- name: select_due
SELECT run_at, id FROM due WHERE run_at <= ? ORDER BY run_at, id LIMIT ?;

-- name: due_jobs
SELECT j.queue, count(*)
FROM (SELECT id FROM due WHERE run_at <= ? ORDER BY run_at, id LIMIT ?) d
CROSS JOIN jobs j ON j.id = d.id GROUP BY j.queue;
-- postgres: SELECT j.queue, count(*) FROM (SELECT id FROM due WHERE run_at <= ? ORDER BY run_at, id
-- postgres: LIMIT ?) d JOIN jobs j ON j.id = d.id GROUP BY j.queue;

-- name: first_due
SELECT run_at FROM due ORDER BY run_at, id LIMIT 1;

-- name: insert_expiring
INSERT INTO expiring (expires_at, id) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: delete_expiring
DELETE FROM expiring WHERE expires_at = ? AND id = ?;

-- name: select_expiring
SELECT expires_at, id FROM expiring WHERE expires_at <= ? ORDER BY expires_at, id LIMIT ?;

-- name: first_expiring
SELECT expires_at FROM expiring ORDER BY expires_at, id LIMIT 1;

-- name: insert_finished
INSERT INTO finished (prune_at, seq, at, ids) VALUES (?, ?, ?, ?);

-- name: first_finished
SELECT prune_at, seq, at, ids FROM finished ORDER BY prune_at, seq LIMIT 1;

-- name: delete_finished
DELETE FROM finished WHERE prune_at = ? AND seq = ?;

-- name: update_finished
UPDATE finished SET ids = ?3 WHERE prune_at = ?1 AND seq = ?2;

-- name: insert_dead
INSERT INTO dead_letter (id, queue, kind, fingerprint, at) VALUES (?, ?, ?, ?, ?);

-- name: death
SELECT j.kind, e.reason, e.description FROM jobs j LEFT JOIN extras e ON e.id = j.id WHERE j.id = ?;

-- name: delete_dead
DELETE FROM dead_letter WHERE id = ?;

-- name: select_dead
SELECT d.id
FROM dead_letter d JOIN jobs j ON j.id = d.id JOIN bodies b ON b.id = d.id
WHERE d.id > ?1 AND (j.queue = ?2 OR ?2 IS NULL) AND (j.kind = ?3 OR ?3 IS NULL) AND
  (instr(b.tags, ?4) > 0 OR ?4 IS NULL)
ORDER BY d.id LIMIT ?5;

-- name: select_unique
SELECT id, until, ended FROM uniques WHERE queue = ? AND key = ?;

-- name: upsert_unique
INSERT INTO uniques (queue, key, id, until)
VALUES (?1, ?2, ?3, ?4) ON CONFLICT (queue, key) DO UPDATE
SET id = excluded.id, until = excluded.until, ended = NULL;

-- name: delete_unique
DELETE FROM uniques WHERE queue = ?1 AND key = ?2 AND id = ?3 AND until <= ?4;

-- name: keep_unique
UPDATE uniques SET ended = ?4 WHERE queue = ?1 AND key = ?2 AND id = ?3;

-- name: first_window
SELECT until FROM uniques WHERE ended IS NOT NULL ORDER BY until LIMIT 1;

-- name: select_windows
SELECT queue, key, id FROM uniques WHERE ended IS NOT NULL AND until <= ? ORDER BY until LIMIT ?;

-- name: select_idempotency
SELECT fingerprint, ids, expires_at FROM idempotency WHERE key = ?;

-- name: insert_idempotency
INSERT INTO idempotency (key, fingerprint, ids, expires_at)
VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
SET fingerprint = excluded.fingerprint, ids = excluded.ids, expires_at = excluded.expires_at;

-- name: delete_idempotency
DELETE
FROM idempotency
WHERE key IN (SELECT key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: first_idempotency
SELECT min(expires_at) FROM idempotency;

-- name: select_limit_key
SELECT limit_key FROM bodies WHERE id = ?;

-- name: delete_job
DELETE FROM jobs WHERE id = ?;

-- name: delete_body
DELETE FROM bodies WHERE id = ?;

-- name: delete_extras
DELETE FROM extras WHERE id = ?;

-- name: delete_errors
DELETE FROM errors WHERE job = ?;

-- name: insert_quarantined
INSERT INTO quarantine (id, since) VALUES (?, ?);

-- name: delete_quarantined
DELETE FROM quarantine WHERE id = ?;

-- name: get_errors
SELECT attempt, at, worker, message, ran_for, program_end FROM errors WHERE job = ? ORDER BY seq;

-- name: created_from
SELECT id, created_at FROM bodies WHERE id >= ? ORDER BY id LIMIT 1;

-- name: line_before
SELECT id, token
FROM jobs
WHERE id > CAST(?3 AS BIGINT) - ?4 AND id < CAST(?3 AS BIGINT) + ?4 AND
  queue = (SELECT queue FROM jobs WHERE id = ?3) AND state = 2 AND
  (priority, run_at, id) < (?1, ?2, ?3);

-- name: quarantined_before
SELECT count(*)
FROM quarantine z JOIN jobs j ON j.id = z.id
WHERE j.queue = (SELECT queue FROM jobs WHERE id = ?3) AND j.id <> ?3 AND (j.state <> 5 OR
  (j.priority, j.run_at, j.id) < (?1, ?2, ?3));

-- name: key_before
SELECT j.id, j.token
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id > CAST(?3 AS BIGINT) - ?4 AND j.id < CAST(?3 AS BIGINT) + ?4 AND
  j.queue = (SELECT queue FROM jobs WHERE id = ?3) AND
  j.state = 2 AND j.flags & 2048 <> 0 AND (j.priority, j.run_at, j.id) < (?1, ?2, ?3) AND
  b.limit_key = ?5;

-- name: live_job
SELECT j.state, j.token, j.attempt, j.max_attempts, b.timeout
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id = ?;

-- name: id_below
SELECT max(id) FROM jobs WHERE id < ?;

-- name: due_by_hour
SELECT q.name, d.hour, count(*)
FROM (SELECT id, run_at, max(run_at, ?1) / 3600000000 AS hour FROM due WHERE run_at < ?2 ORDER BY
  run_at, id LIMIT ?3) d
LEFT JOIN jobs j ON j.id = d.id AND j.state IN (1, 5) AND j.run_at = d.run_at
LEFT JOIN queues q ON q.id = j.queue GROUP BY q.id, d.hour;
-- postgres: SELECT q.name, d.hour, count(*) FROM (SELECT id, run_at, greatest(run_at, ?1) /
-- postgres: 3600000000 AS hour FROM due WHERE run_at < ?2 ORDER BY run_at, id LIMIT ?3) d LEFT JOIN
-- postgres: jobs j ON j.id = d.id AND j.state IN (1, 5) AND j.run_at = d.run_at LEFT JOIN queues q
-- postgres: ON q.id = j.queue GROUP BY q.id, d.hour;

-- name: select_session
SELECT session FROM bodies WHERE id = ?;

-- name: select_tags
SELECT tags FROM bodies WHERE id = ?;

-- name: select_args
SELECT args FROM bodies WHERE id = ?;

-- name: newest_dead
SELECT id, queue, kind, fingerprint, at
FROM dead_letter
WHERE queue = ?1 OR ?1 IS NULL ORDER BY id DESC LIMIT ?2;

-- name: load_quarantined
SELECT j.id, j.queue, j.state, j.priority, j.run_at FROM quarantine z JOIN jobs j ON j.id = z.id;

-- name: next_finished_seq
SELECT coalesce(max(seq), 0) + 1 FROM finished;

-- name: last_id
SELECT coalesce(max(id), 0) FROM jobs;

-- name: load_waiting
SELECT id, queue, kind, priority, run_at, version = 1 AND flags = 0 AND expires_at IS NULL, flags,
  CASE WHEN flags & 2048 <> 0 THEN (SELECT limit_key FROM bodies b WHERE b.id = jobs.id) END, state
FROM jobs
WHERE id >= ? AND id < ? AND (state = 2 OR (state = 0 AND flags & 64 <> 0));

-- name: count
SELECT count(*) FROM jobs;

-- name: count_all
SELECT CAST(coalesce(sum(expired + waiting + scheduled + available + running + completed + retryable +
  cancelled + dead), 0) AS BIGINT)
FROM queue_counts;

-- name: waiting_due
SELECT d.id, q.name, j.state, d.run_at
FROM due d JOIN jobs j ON j.id = d.id JOIN queues q ON q.id = j.queue
WHERE d.run_at <= ? ORDER BY d.run_at, d.id LIMIT ?;

-- name: waiting_expiring
SELECT e.id, q.name, j.state, e.expires_at
FROM expiring e JOIN jobs j ON j.id = e.id JOIN queues q ON q.id = j.queue
WHERE e.expires_at <= ? AND j.started_at IS NULL
ORDER BY e.expires_at, e.id LIMIT ?;

-- The whole record. Grants show whether the job runs.
-- part: job_columns
j.id, q.name, k.name, j.state, j.priority, j.run_at, j.attempt, j.max_attempts, j.token, j.version,
  j.started_at, j.finished_at, j.expires_at, b.created_at, b.args, b.timeout, b.tags, b.headers,
  b.correlation_id, b.reply_to, b.unique_key, e.progress_value, e.progress_text, e.reason,
  e.description, n.version, n.cancel_requested, e.checkpoint, e.result, b.follow_ups, b.session,
  b.reply_session, j.flags, b.limit_key, CASE WHEN j.flags & 1073741824 <> 0 THEN (SELECT since FROM
  quarantine z WHERE z.id = j.id) END, e.warning;

-- part: job_joins
JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue JOIN kinds k ON k.id = j.kind
  LEFT JOIN lease_notes n ON n.id = j.id LEFT JOIN extras e ON e.id = j.id;

-- part: job_filter
(j.queue = ?3 OR ?3 IS NULL) AND (j.kind = ?4 OR ?4 IS NULL) AND
  (instr(b.tags, ?5) > 0 OR ?5 IS NULL);

-- part: in_states
(?6 = 0 OR (1 << j.state) & ?6 <> 0);

-- name: get_job
SELECT {job_columns} FROM jobs j {job_joins} WHERE j.id = ?;

-- name: list_jobs
SELECT {job_columns}
FROM jobs j {job_joins}
WHERE j.id < ?1 AND j.id >= ?2 AND {job_filter} AND {in_states} ORDER BY j.id DESC;

-- name: list_dead
SELECT {job_columns}
FROM dead_letter d CROSS JOIN jobs j {job_joins}
WHERE j.id = d.id AND d.id < ?1 AND d.id >= ?2 AND {job_filter} ORDER BY d.id DESC;

-- name: list_quarantined
SELECT {job_columns}
FROM quarantine z CROSS JOIN jobs j {job_joins}
WHERE j.id = z.id AND z.id < ?1 AND z.id >= ?2 AND {job_filter} AND {in_states} ORDER BY z.id DESC;
