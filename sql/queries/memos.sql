-- name: insert
INSERT OR IGNORE INTO memos (job, name, result) VALUES (?, ?, ?);

-- name: overwrite
INSERT OR REPLACE INTO memos (job, name, result) VALUES (?, ?, ?);

-- name: known
SELECT 1 FROM memos WHERE job = ? AND name = ?;

-- name: count
SELECT count(*) FROM memos WHERE job = ?;

-- name: remove
DELETE FROM memos WHERE job = ?;

-- name: page
SELECT name, result FROM memos WHERE job = ? AND name >= ? ORDER BY name LIMIT ?;
