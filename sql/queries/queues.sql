-- name: insert_queue
INSERT INTO queues (id, name) VALUES (?, ?);

-- name: update_queue
UPDATE queues
SET paused = ?2, retention_completed = ?3, retention_dead = ?4, empty_since = ?5, empty_at = ?6,
  removed = ?7, pause = ?8
WHERE id = ?1;

-- name: update_limits
UPDATE queues SET limits = ?2, meter = ?3, opens_at = ?4 WHERE id = ?1;

-- name: update_fair_keys
UPDATE queues SET fair_at = ?2 WHERE id = ?1;

-- name: insert_kind
INSERT INTO kinds (id, name) VALUES (?, ?);

-- name: upsert_job_counts
INSERT OR REPLACE INTO job_counts (id, a, b, c, d, e, f, g, h, i, j, k)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
-- postgres: INSERT INTO job_counts_log (id, a, b, c, d, e, f, g, h, i, j, k) VALUES (?, ?, ?, ?, ?,
-- postgres: ?, ?, ?, ?, ?, ?, ?);

-- name: start_copy
UPDATE job_counts SET a = ?, b = ?, c = NULL WHERE id = 0;
-- postgres: INSERT INTO job_counts_log (id, a, b, d, e, f, g) SELECT id, ?, ?, d, e, f, g FROM
-- postgres: job_counts WHERE id = 0;

-- name: delete_job_counts
DELETE FROM job_counts WHERE id = ?;
-- postgres: INSERT INTO job_counts_log (id) VALUES (?);

-- name: next_token
SELECT b FROM job_counts WHERE id = 0;

-- name: next_id
SELECT a FROM job_counts WHERE id = 0;

-- name: queue_id
SELECT id FROM queues WHERE name = ?;

-- name: kind_id
SELECT id FROM kinds WHERE name = ?;

-- name: names
SELECT name FROM queues WHERE name >= ? ORDER BY name;

-- name: next_session
SELECT d FROM job_counts WHERE id = 0;

-- name: next_workflow
SELECT e FROM job_counts WHERE id = 0;

-- name: reset_point
SELECT coalesce(c, 0) FROM job_counts WHERE id = 0;

-- name: load_kinds
SELECT id, name FROM kinds ORDER BY id;

-- name: load_queues
SELECT q.id, q.name, q.paused, q.retention_completed, q.retention_dead, t.a, t.b, t.c, t.d, t.e,
  t.f, t.g, t.h, t.i, t.j, t.k, q.empty_since, q.empty_at, q.removed, q.pause
FROM queues q LEFT JOIN job_counts t ON t.id = q.id ORDER BY q.id;

-- name: live_blocks
SELECT id - 4294967296, a FROM job_counts WHERE id >= 4294967296 ORDER BY id;

-- name: allowance
SELECT coalesce(g, 0) FROM job_counts WHERE id = 0;

-- name: mark_backup
UPDATE job_counts SET c = 1 WHERE id = 0;
-- postgres: INSERT INTO job_counts_log (id, a, b, c, d, e, f, g) SELECT id, a, b, 1, d, e, f, g
-- postgres: FROM job_counts WHERE id = 0;

-- name: count
SELECT count(*) FROM queues;

-- name: queue_name
SELECT name FROM queues WHERE id = ?;

-- name: kind_name
SELECT name FROM kinds WHERE id = ?;
