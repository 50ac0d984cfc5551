-- name: of_worker
SELECT id, at, text, who, source FROM marks WHERE text = ? AND source = 1;

-- name: insert
INSERT INTO marks (at, text, who, source) VALUES (?, ?, ?, ?) RETURNING id;

-- name: count
SELECT count(*) FROM marks;

-- name: drop_first
DELETE FROM marks WHERE id IN (SELECT id FROM marks ORDER BY at, id LIMIT ?);

-- name: one
SELECT 1 FROM marks WHERE id = ?;

-- name: remove
DELETE FROM marks WHERE id = ?;

-- name: view
SELECT 1 FROM saved_views WHERE name = ?;

-- name: count_views
SELECT count(*) FROM saved_views;

-- name: put_view
INSERT INTO saved_views (name, page, query, who, updated_at)
VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
SET page = excluded.page, query = excluded.query, who = excluded.who,
  updated_at = excluded.updated_at;

-- name: remove_view
DELETE FROM saved_views WHERE name = ?;

-- name: page
SELECT id, at, text, who, source
FROM marks
WHERE at >= ?1 AND at <= ?2 AND (at, id) < (?2, ?3)
ORDER BY at DESC, id DESC LIMIT ?4;

-- name: views
SELECT name, page, query, who, updated_at FROM saved_views ORDER BY name;
