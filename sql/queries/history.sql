-- name: series
SELECT id, queue, kind, last_at FROM history_series;

-- name: insert_series
INSERT INTO history_series (queue, kind, last_at) VALUES (?, ?, ?) RETURNING id;

-- name: touch_series
UPDATE history_series SET last_at = ?2 WHERE id = ?1;

-- name: drop_series
DELETE FROM history_series WHERE last_at < ?;

-- name: one
SELECT enqueued, started, completed, failed, dead, cancelled, wait, run
FROM history
WHERE span = ? AND at = ? AND series = ?;

-- name: put
INSERT OR REPLACE INTO history (span, at, series, enqueued, started, completed, failed, dead,
  cancelled, wait, run)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
-- postgres: INSERT INTO history (span, at, series, enqueued, started, completed, failed, dead,
-- postgres: cancelled, wait, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (span, at,
-- postgres: series) DO UPDATE SET enqueued = excluded.enqueued, started = excluded.started,
-- postgres: completed = excluded.completed, failed = excluded.failed, dead = excluded.dead,
-- postgres: cancelled = excluded.cancelled, wait = excluded.wait, run = excluded.run;

-- name: first
SELECT min(at) FROM history WHERE span = ?;

-- name: drop
DELETE FROM history WHERE span = ? AND at < ?;

-- name: series_names
SELECT id, queue, kind FROM history_series;

-- name: job_fact
SELECT q.name, k.name, j.state, b.created_at, j.started_at, j.finished_at
FROM jobs j JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue
JOIN kinds k ON k.id = j.kind
WHERE j.id = ?;

-- name: recent
SELECT s.queue, h.at, h.enqueued, h.started, h.completed, h.failed, h.dead, h.cancelled, h.wait,
  h.run
FROM history h JOIN history_series s ON s.id = h.series
WHERE h.span = 60000000 AND h.at >= ? AND s.kind = '' AND s.queue <> '';
