-- name: insert_grant
INSERT INTO grants (token, worker, claimed_at, lease, ids) VALUES (?, ?, ?, ?, ?);

-- name: delete_grant
DELETE FROM grants WHERE token = ?;

-- name: upsert_note
INSERT OR REPLACE INTO lease_notes (id, version, lease, cancel_requested, cancel_reason, kept)
VALUES (?, ?, ?, ?, ?, ?);
-- postgres: INSERT INTO lease_notes (id, version, lease, cancel_requested, cancel_reason, kept)
-- postgres: VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = excluded.version,
-- postgres: lease = excluded.lease, cancel_requested = excluded.cancel_requested, cancel_reason =
-- postgres: excluded.cancel_reason, kept = excluded.kept;

-- name: delete_note
DELETE FROM lease_notes WHERE id = ?;

-- name: upsert_lease
INSERT INTO named_leases (name, state, holder, token, ttl, since, value)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
SET state = excluded.state, holder = excluded.holder, token = excluded.token, ttl = excluded.ttl,
  since = excluded.since, value = excluded.value;

-- name: delete_lease
DELETE FROM named_leases WHERE name = ?;

-- name: load_named_leases
SELECT name, state, holder, token, ttl, since, value FROM named_leases;

-- name: last_token
SELECT max((SELECT coalesce(max(token), 0) FROM leases), (SELECT coalesce(max(token), 0) FROM
  named_leases), (SELECT coalesce(max(token), 0) FROM sessions WHERE token <> 0));
-- postgres: SELECT greatest((SELECT coalesce(max(token), 0) FROM leases), (SELECT
-- postgres: coalesce(max(token), 0) FROM named_leases), (SELECT coalesce(max(token), 0) FROM
-- postgres: sessions WHERE token <> 0));

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
-- postgres: SELECT j.id, g.token + e.key, g.token, coalesce(n.lease, g.lease), coalesce(n.version,
-- postgres: j.version + 1), coalesce(n.cancel_requested, 0), n.cancel_reason, n.id IS NOT NULL,
-- postgres: j.queue, j.kind, j.priority, j.run_at, j.attempt, j.max_attempts, j.flags, b.timeout,
-- postgres: x.id IS NOT NULL, s.id, EXISTS (SELECT 1 FROM memos m WHERE m.job = j.id), b.limit_key,
-- postgres: coalesce(n.kept, 0) FROM grants g CROSS JOIN json_each(g.ids) e JOIN jobs j ON j.id =
-- postgres: e.value JOIN bodies b ON b.id = j.id LEFT JOIN lease_notes n ON n.id = j.id LEFT JOIN
-- postgres: extras x ON x.id = j.id LEFT JOIN sessions s ON s.queue = j.queue AND s.key = b.session
-- postgres: WHERE j.state = 2 AND j.token < g.token + e.key;

-- name: count_held
SELECT count(*) FROM named_leases WHERE state = 0;
