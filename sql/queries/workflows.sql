-- name: load
SELECT id, name, key, state, wake_at, finished_at, data FROM workflows WHERE id = ?;

-- name: by_key
SELECT id, name, key, state, wake_at, finished_at, data
FROM workflows
WHERE name = ? AND key = ? ORDER BY id DESC LIMIT ?;

-- name: insert
INSERT INTO workflows (id, name, key, state, wake_at, finished_at, data)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: update
UPDATE workflows SET state = ?, wake_at = ?, finished_at = ?, data = ? WHERE id = ?;

-- name: put_job
INSERT INTO workflow_jobs (job, workflow, step, undo) VALUES (?, ?, ?, ?);

-- name: job
SELECT workflow, step, undo FROM workflow_jobs WHERE job = ?;

-- name: remove_job
DELETE FROM workflow_jobs WHERE job = ?;

-- name: first_wake
SELECT min(wake_at) FROM workflows WHERE wake_at IS NOT NULL;

-- name: due
SELECT id FROM workflows WHERE wake_at <= ? ORDER BY wake_at LIMIT ?;

-- name: first_finished
SELECT min(finished_at) FROM workflows WHERE state = ? AND finished_at IS NOT NULL;

-- name: finished
SELECT id FROM workflows WHERE state = ? AND finished_at <= ? ORDER BY finished_at LIMIT 1;

-- name: let_children_go
UPDATE workflows
SET finished_at = ?2
WHERE id IN (SELECT number FROM workflow_rows WHERE workflow = ?1 AND kind = 12);

-- name: prune
DELETE FROM workflows WHERE id = ?;

-- name: list
SELECT id, name, key, state, wake_at, finished_at, data
FROM workflows
WHERE id < ? ORDER BY id DESC LIMIT ?;

-- name: states
SELECT number, text
FROM workflow_rows
WHERE workflow = ? AND kind = ? AND number > ? ORDER BY number LIMIT ?;
