-- name: load
SELECT name, definition, state, secret FROM triggers WHERE name = ?;

-- name: count
SELECT count(*) FROM triggers;

-- name: insert
INSERT INTO triggers (name, definition, state, secret)
VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
SET definition = excluded.definition, state = excluded.state, secret = excluded.secret;

-- name: state
UPDATE triggers SET state = ?2 WHERE name = ?1;

-- name: remove
DELETE FROM triggers WHERE name = ?;

-- name: remove_events
DELETE FROM trigger_events WHERE name = ?;

-- name: event
SELECT seq, event, fired_at, made_at, job, reason FROM trigger_events WHERE name = ? AND event = ?;

-- name: add_event
INSERT INTO trigger_events (name, seq, event, fired_at, made_at, job, reason)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: latest
SELECT max(made_at) FROM trigger_events WHERE name = ? AND seq <= ?;

-- name: forget
DELETE FROM trigger_events WHERE name = ? AND seq <= ?;

-- name: list
SELECT name, definition, state, secret FROM triggers WHERE name > ? ORDER BY name LIMIT ?;

-- name: events
SELECT seq, event, fired_at, made_at, job, reason
FROM trigger_events
WHERE name = ? AND seq < ? ORDER BY seq DESC LIMIT ?;

-- name: load_on_job_ends
SELECT name, definition, state, secret
FROM triggers
WHERE instr(definition, '"ended":{') > 0 ORDER BY name;
