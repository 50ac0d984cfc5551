-- name: load
SELECT id, queue, path, above, removed FROM search_paths ORDER BY id;

-- name: insert_path
INSERT INTO search_paths (queue, path, above) VALUES (?, ?, ?) RETURNING id;

-- name: update_path
UPDATE search_paths SET above = ?2, removed = ?3 WHERE id = ?1;

-- name: delete_path
DELETE FROM search_paths WHERE id = ?;

-- name: insert
INSERT INTO search_values (path, value, job) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: remove
DELETE FROM search_values WHERE path = ? AND value = ? AND job = ?;

-- name: trim
DELETE
FROM search_values
WHERE path = ?1 AND (value, job) < (SELECT value, job FROM search_values WHERE path = ?1 ORDER BY
  value, job LIMIT 1 OFFSET ?2);

-- name: drop
DELETE FROM search_values WHERE path = ?;

-- name: jobs_below
SELECT j.id, b.args
FROM (SELECT id, queue FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT ?3) j
LEFT JOIN bodies b ON b.id = j.id AND j.queue = ?2 ORDER BY j.id DESC;

-- name: path
SELECT p.id, p.above
FROM queues q JOIN search_paths p ON p.queue = q.id
WHERE q.name = ? AND p.path = ? AND p.removed = 0;

-- name: jobs
SELECT job FROM search_values WHERE path = ? AND value = ? AND job < ? ORDER BY job DESC LIMIT ?;

-- name: jobs_from
SELECT j.id, b.args FROM jobs j JOIN bodies b ON b.id = j.id WHERE j.queue = ?1 AND j.id >= ?2;

-- name: known
SELECT 1 FROM search_values WHERE path = ? AND value = ? AND job = ?;

-- name: count
SELECT count(*) FROM search_values WHERE path = ? AND job >= ?;
