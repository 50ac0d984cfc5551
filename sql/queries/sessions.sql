-- name: by_key
SELECT id, queue, key, jobs, head, stop, stopped_by, worker, token, lease, state_bytes, changed_at
FROM sessions
WHERE queue = ? AND key = ?;

-- name: by_id
SELECT id, queue, key, jobs, head, stop, stopped_by, worker, token, lease, state_bytes, changed_at
FROM sessions
WHERE id = ?;

-- name: insert
INSERT INTO sessions (id, queue, key, jobs, head, stop, stopped_by, worker, token, lease,
  state_bytes, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update
UPDATE sessions
SET jobs = ?2, head = ?3, stop = ?4, stopped_by = ?5, worker = ?6, token = ?7, lease = ?8,
  state_bytes = ?9, changed_at = ?10
WHERE id = ?1;

-- name: remove
DELETE FROM sessions WHERE id = ?;

-- name: state
SELECT state FROM session_states WHERE session = ?;

-- name: upsert_state
INSERT OR REPLACE INTO session_states (session, state) VALUES (?, ?);
-- postgres: INSERT INTO session_states (session, state) VALUES (?, ?) ON CONFLICT (session) DO
-- postgres: UPDATE SET state = excluded.state;

-- name: delete_state
DELETE FROM session_states WHERE session = ?;

-- name: forgotten
SELECT id
FROM sessions
WHERE jobs = 0 AND token = 0 AND stop = 0 AND changed_at <= ?
ORDER BY changed_at LIMIT ?;

-- name: first_forgotten
SELECT changed_at
FROM sessions
WHERE jobs = 0 AND token = 0 AND stop = 0 ORDER BY changed_at LIMIT 1;

-- name: of_waiting
SELECT s.id
FROM bodies b CROSS JOIN sessions s ON s.queue = ?2 AND s.key = b.session
WHERE b.id = ?1 AND (s.token = 0 OR s.head <> ?1);
-- postgres: SELECT s.id FROM bodies b JOIN sessions s ON s.queue = ?2 AND s.key = b.session WHERE
-- postgres: b.id = ?1 AND (s.token = 0 OR s.head <> ?1);

-- name: one
SELECT q.name, s.key, s.jobs, s.head, s.stop, s.stopped_by, s.worker, s.token, s.lease,
  s.state_bytes, s.changed_at, s.id, t.state
FROM queues q JOIN sessions s ON s.queue = q.id
LEFT JOIN session_states t ON t.session = s.id
WHERE q.name = ? AND s.key = ?;

-- name: of_queue
SELECT q.name, s.key, s.jobs, s.head, s.stop, s.stopped_by, s.worker, s.token, s.lease,
  s.state_bytes, s.changed_at, s.id
FROM queues q CROSS JOIN sessions s ON s.queue = q.id
WHERE q.name = ? AND s.key > ? ORDER BY s.key LIMIT ?;
-- postgres: SELECT q.name, s.key, s.jobs, s.head, s.stop, s.stopped_by, s.worker, s.token, s.lease,
-- postgres: s.state_bytes, s.changed_at, s.id FROM queues q JOIN sessions s ON s.queue = q.id WHERE
-- postgres: q.name = ? AND s.key > ? ORDER BY s.key LIMIT ?;

-- name: load_held
SELECT id, queue, key, jobs, head, stop, stopped_by, worker, token, lease, state_bytes, changed_at
FROM sessions
WHERE token <> 0;

-- name: load_unheld
SELECT id, jobs, head FROM sessions WHERE token = 0 AND stop = 0 AND state_bytes = 0;

-- name: rows_lag
SELECT f FROM job_counts WHERE id = 0;

-- name: live_jobs
SELECT s.id, j.id, j.state
FROM job_counts t
CROSS JOIN jobs j ON j.id >= (t.id - ?1) * ?2 AND j.id < (t.id - ?1 + 1) * ?2
CROSS JOIN bodies b ON b.id = j.id
CROSS JOIN main.sessions s ON s.queue = j.queue AND s.key = b.session
WHERE t.id >= ?1 AND j.flags & 64 <> 0 AND j.state NOT IN (4, 6, 7);
-- postgres: SELECT s.id, j.id, j.state FROM job_counts t JOIN jobs j ON j.id >= (t.id - ?1) * ?2
-- postgres: AND j.id < (t.id - ?1 + 1) * ?2 JOIN bodies b ON b.id = j.id JOIN sessions s ON s.queue
-- postgres: = j.queue AND s.key = b.session WHERE t.id >= ?1 AND j.flags & 64 <> 0 AND j.state NOT
-- postgres: IN (4, 6, 7);

-- `sessions` becomes a view of this connection that shows up-to-date rows.
-- name: drop_view
DROP VIEW IF EXISTS temp.sessions;
-- postgres: DROP VIEW IF EXISTS pg_temp.sessions;

-- name: create_jobs_of
CREATE TEMP TABLE IF NOT EXISTS jobs_of_sessions (id INTEGER PRIMARY KEY, jobs, head);
-- postgres: CREATE TEMP TABLE IF NOT EXISTS jobs_of_sessions (id bigint PRIMARY KEY, jobs bigint,
-- postgres: head bigint);

-- name: create_view
CREATE TEMP VIEW sessions AS
SELECT s.id AS id, queue, key,
  CASE WHEN token <> 0 OR stop <> 0 OR state_bytes > 0 THEN s.jobs ELSE coalesce(r.jobs, 0) END
  AS jobs,
  CASE WHEN token <> 0 OR stop <> 0 OR state_bytes > 0 THEN s.head ELSE coalesce(r.head, 0) END
  AS head, stop, stopped_by, worker, token, lease, state_bytes, changed_at
FROM main.sessions s LEFT JOIN jobs_of_sessions r ON r.id = s.id
WHERE r.jobs > 0 OR token <> 0 OR stop <> 0 OR state_bytes > 0;
-- postgres: CREATE TEMP VIEW sessions AS SELECT s.id AS id, queue, key,
-- postgres: CASE WHEN token <> 0 OR stop <> 0 OR state_bytes > 0 THEN s.jobs ELSE coalesce(r.jobs, 0)
-- postgres: END AS jobs,
-- postgres: CASE WHEN token <> 0 OR stop <> 0 OR state_bytes > 0 THEN s.head ELSE coalesce(r.head, 0)
-- postgres: END AS head, stop, stopped_by, worker, token, lease, state_bytes, changed_at
-- postgres: FROM sessions s LEFT JOIN jobs_of_sessions r ON r.id = s.id
-- postgres: WHERE r.jobs > 0 OR token <> 0 OR stop <> 0 OR state_bytes > 0;

-- name: delete_jobs_of
DELETE FROM jobs_of_sessions;

-- name: insert_jobs_of
INSERT INTO jobs_of_sessions (id, jobs, head) VALUES (?, ?, ?);

-- name: last_id
SELECT coalesce(max(id), 0) FROM sessions;

-- name: count
SELECT count(*) FROM sessions;
