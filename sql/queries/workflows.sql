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

-- name: select_rows
SELECT text FROM workflow_rows WHERE workflow = ? AND kind = ? AND number = ?;

-- name: put_rows
INSERT INTO workflow_rows (workflow, kind, number, text)
VALUES (?, ?, ?, ?) ON CONFLICT (workflow, kind, number) DO UPDATE
SET text = excluded.text;

-- name: remove_rows
DELETE FROM workflow_rows WHERE workflow = ? AND kind = ? AND number = ?;

-- name: rows_up
SELECT number, text FROM workflow_rows WHERE workflow = ? AND kind = ? ORDER BY number LIMIT ?;

-- name: rows_down
SELECT number, text FROM workflow_rows WHERE workflow = ? AND kind = ? ORDER BY number DESC LIMIT ?;

-- name: prune_rows
DELETE FROM workflow_rows
WHERE workflow = ?1 AND (kind, number) IN (SELECT kind, number FROM workflow_rows WHERE workflow = ?1
  ORDER BY kind, number LIMIT ?2);

-- name: select_texts
SELECT text FROM workflow_texts WHERE workflow = ? AND kind = ? AND number = ?;

-- name: put_texts
INSERT INTO workflow_texts (workflow, kind, number, text)
VALUES (?, ?, ?, ?) ON CONFLICT (workflow, kind, number) DO UPDATE
SET text = excluded.text;

-- name: remove_texts
DELETE FROM workflow_texts WHERE workflow = ? AND kind = ? AND number = ?;

-- name: texts_up
SELECT number, text FROM workflow_texts WHERE workflow = ? AND kind = ? ORDER BY number LIMIT ?;

-- name: texts_down
SELECT number, text FROM workflow_texts WHERE workflow = ? AND kind = ? ORDER BY number DESC LIMIT ?;

-- name: prune_texts
DELETE FROM workflow_texts
WHERE workflow = ?1 AND (kind, number) IN (SELECT kind, number FROM workflow_texts WHERE workflow = ?1
  ORDER BY kind, number LIMIT ?2);
