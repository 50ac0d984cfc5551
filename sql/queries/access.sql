-- name: upsert_token
INSERT INTO tokens (name, digest, scopes, rate, created_at, created_by, expires_at, revoked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
SET digest = excluded.digest, scopes = excluded.scopes, rate = excluded.rate,
  created_at = excluded.created_at, created_by = excluded.created_by,
  expires_at = excluded.expires_at, revoked_at = excluded.revoked_at;

-- name: delete_token
DELETE FROM tokens WHERE name = ?;

-- name: insert_audit
INSERT INTO audit (seq, at, who, origin, action, object, before, after, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_mark
UPDATE audit_marks SET seq = ?2, hash = ?3 WHERE id = ?1;

-- name: first_audit
SELECT seq, at, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: prune_audit
DELETE FROM audit WHERE seq <= ?;

-- name: oldest_first
SELECT seq, at, who, origin, action, object, before, after, hash
FROM audit
WHERE seq >= ?1 AND seq <= ?2 AND (who = ?3 OR ?3 IS NULL) AND (action = ?4 OR ?4 IS NULL) AND
  (object = ?5 OR ?5 IS NULL)
ORDER BY seq LIMIT ?6;

-- name: newest_first
SELECT seq, at, who, origin, action, object, before, after, hash
FROM audit
WHERE seq >= ?1 AND seq <= ?2 AND (who = ?3 OR ?3 IS NULL) AND (action = ?4 OR ?4 IS NULL) AND
  (object = ?5 OR ?5 IS NULL)
ORDER BY seq DESC LIMIT ?6;

-- name: newest
SELECT coalesce(max(seq), 0) FROM audit;

-- name: oldest
SELECT coalesce(min(seq), 0) FROM audit;

-- name: marks
SELECT seq, hash FROM audit_marks ORDER BY id;

-- name: marks_by_id
SELECT id, seq, hash FROM audit_marks ORDER BY id;

-- name: all_records
SELECT seq, at, who, origin, action, object, before, after, hash FROM audit ORDER BY seq;

-- name: load_tokens
SELECT name, digest, scopes, rate, created_at, created_by, expires_at, revoked_at FROM tokens;

-- name: count_tokens
SELECT count(*) FROM tokens;

-- name: newest_mark
SELECT seq FROM audit_marks WHERE id = 1;
