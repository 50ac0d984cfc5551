-- name: upsert_key_meter
INSERT OR REPLACE INTO key_meters (queue, key, meter) VALUES (?, ?, ?);
-- postgres: INSERT INTO key_meters (queue, key, meter) VALUES (?, ?, ?) ON CONFLICT (queue, key) DO
-- postgres: UPDATE SET meter = excluded.meter;

-- name: delete_key_meter
DELETE FROM key_meters WHERE queue = ? AND key = ?;

-- name: drop_key_meters
DELETE FROM key_meters WHERE queue = ?;

-- name: upsert_fair_keys
INSERT OR REPLACE INTO fair_keys (queue, key, at) VALUES (?, ?, ?);
-- postgres: INSERT INTO fair_keys (queue, key, at) VALUES (?, ?, ?) ON CONFLICT (queue, key) DO
-- postgres: UPDATE SET at = excluded.at;

-- name: forget_fair_keys
DELETE FROM fair_keys WHERE queue = ? AND at <= ?;

-- name: drop_fair_keys
DELETE FROM fair_keys WHERE queue = ?;

-- name: delete_breaker
DELETE FROM breakers WHERE name = ?;

-- name: upsert_breaker
INSERT INTO breakers (name, settings, state)
VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE
SET settings = excluded.settings, state = excluded.state;

-- name: load_breakers
SELECT name, settings, coalesce(state, '') FROM breakers;

-- name: load_fair_keys
SELECT queue, key, at FROM fair_keys;

-- name: load_fair_at
SELECT id, fair_at FROM queues WHERE fair_at IS NOT NULL;

-- name: load_key_meters
SELECT queue, key, meter FROM key_meters;

-- name: load_limits
SELECT id, limits, meter, opens_at FROM queues WHERE limits IS NOT NULL;

-- name: count_breakers
SELECT count(*) FROM breakers;
