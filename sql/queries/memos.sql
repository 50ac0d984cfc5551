-- name: insert
INSERT INTO memos (job, name, result) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: overwrite
INSERT INTO memos (job, name, result)
VALUES (?, ?, ?) ON CONFLICT (job, name) DO UPDATE
SET result = excluded.result;

-- name: known
SELECT 1 FROM memos WHERE job = ? AND name = ?;

-- name: count
SELECT count(*) FROM memos WHERE job = ?;

-- name: remove
DELETE FROM memos WHERE job = ?;

-- name: page
SELECT name, result FROM memos WHERE job = ? AND name >= ? ORDER BY name LIMIT ?;
