-- name: insert
INSERT INTO schedules (name, version, definition, paused, next, next_fire, skip_before, fired,
  last_job, created_at, updated_at, next_seq)
VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, ?, 0, 1) RETURNING id;

-- name: update
UPDATE schedules
SET version = ?2, paused = ?3, paused_reason = ?4, next = ?5, next_fire = ?6, skip_before = ?7,
  skip_reason = ?8, remaining = ?9, fired = ?10, last_fired = ?11, last_job = ?12, timeout_override
  = ?13, updated_at = ?14, next_seq = ?15
WHERE id = ?1;

-- name: update_definition
UPDATE schedules SET definition = ?2 WHERE id = ?1;

-- name: remove
DELETE FROM schedules WHERE id = ?;

-- name: select_removed
SELECT version FROM removed_schedules WHERE name = ?;

-- name: insert_removed
INSERT INTO removed_schedules (name, version) VALUES (?, ?);

-- name: delete_removed
DELETE FROM removed_schedules WHERE name = ?;

-- name: insert_tick
INSERT INTO ledger (schedule, seq, version, nominal, until, count, source, state, past_due, job,
  reason, note, decided_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_tick
DELETE FROM ledger WHERE schedule = ? AND seq = ?;

-- name: delete_ledger
DELETE FROM ledger WHERE schedule = ?;

-- name: select_fired
SELECT job
FROM ledger
WHERE schedule = ?1 AND nominal = ?2 AND state = 0 AND source IN (0, 2) AND
  (version = ?3 OR ?3 IS NULL)
ORDER BY version DESC LIMIT 1;

-- name: insert_link
INSERT INTO schedule_jobs (job, schedule) VALUES (?, ?);

-- name: delete_link
DELETE FROM schedule_jobs WHERE job = ?;

-- name: schedule_id
SELECT id FROM schedules WHERE name = ?;

-- name: ledger
SELECT l.seq, l.version, l.nominal, l.until, l.count, l.source, l.state, l.past_due, l.job,
  l.reason, l.note, l.decided_at, j.state, j.token
FROM ledger l LEFT JOIN jobs j ON j.id = l.job
WHERE l.schedule = ? AND l.seq < ? ORDER BY l.seq DESC LIMIT ?;

-- name: load
SELECT id, name, version, definition, paused, paused_reason, next, next_fire, skip_before,
  skip_reason, remaining, fired, last_fired, last_job, timeout_override, created_at, updated_at,
  next_seq
FROM schedules;

-- name: load_links
SELECT t.job, t.schedule, j.state = 0 AND j.flags & 32768 = 0
FROM schedule_jobs t JOIN jobs j ON j.id = t.job;

-- name: count
SELECT count(*) FROM schedules;
