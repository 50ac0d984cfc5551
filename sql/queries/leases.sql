-- name: insert_grant
INSERT INTO grants (token, worker, claimed_at, lease, ids) VALUES (?, ?, ?, ?, ?);

-- name: delete_grant
DELETE FROM grants WHERE token = ?;

-- name: upsert_note
INSERT OR REPLACE INTO lease_notes (id, version, lease, cancel_requested, cancel_reason, kept)
VALUES (?, ?, ?, ?, ?, ?);

-- name: delete_note
DELETE FROM lease_notes WHERE id = ?;

-- name: upsert_lease
INSERT OR REPLACE INTO named_leases (name, state, holder, token, ttl, since, value)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: delete_lease
DELETE FROM named_leases WHERE name = ?;

-- name: load_named_leases
SELECT name, state, holder, token, ttl, since, value FROM named_leases;

-- name: last_token
SELECT max((SELECT coalesce(max(token), 0) FROM leases), (SELECT coalesce(max(token), 0) FROM
  named_leases), (SELECT coalesce(max(token), 0) FROM sessions WHERE token <> 0));

-- name: load_grants
SELECT token, worker, claimed_at FROM grants;

-- name: load_running
SELECT j.id, g.token + e.key, g.token, coalesce(n.lease, g.lease), coalesce(n.version, j.version +
  1), coalesce(n.cancel_requested, 0), n.cancel_reason, n.id IS NOT NULL, j.queue, j.kind,
  j.priority, j.run_at, j.attempt, j.max_attempts, j.flags, b.timeout, x.id IS NOT NULL, s.id,
  EXISTS (SELECT 1 FROM memos m WHERE m.job = j.id), b.limit_key, coalesce(n.kept, 0)
FROM grants g CROSS JOIN json_each(g.ids) e CROSS JOIN jobs j ON j.id = e.value
JOIN bodies b ON b.id = j.id LEFT JOIN lease_notes n ON n.id = j.id
LEFT JOIN extras x ON x.id = j.id
LEFT JOIN sessions s ON s.queue = j.queue AND s.key = b.session
WHERE j.state = 2 AND j.token < g.token + e.key;

-- name: count_held
SELECT count(*) FROM named_leases WHERE state = 0;
