-- Schema 1: one authoritative record per job, in two halves, with what is rare kept aside.
--
-- jobs     the half that changes: small, so that a commit that finishes many jobs touches few pages.
-- bodies   the half that does not: written once.
-- grants   one row per claim: the jobs it gave and their tokens. A claim appends here instead of rewriting each job, and
--          ending a job rewrites only the job: a grant goes when all its jobs have ended. So a job is running when its row
--          says available and a grant gives it a token above the row's. The views `leases` and `job` show it so.
-- tallies  counters, kept in the same commit as what they count, together on few pages.
-- The order of available jobs is not on disk: it is (priority, run_at, id) of jobs, read once at start from the blocks
-- of ids that have live jobs.
-- Times are microseconds since 1970 in UTC.

CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0,
  retention_completed INTEGER,          -- microseconds; NULL = the store's default
  retention_dead INTEGER
);

CREATE TABLE kinds (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  state INTEGER NOT NULL,               -- 0 waiting 1 scheduled 2 available (or running, see grants) 4 completed
                                        -- 5 retryable 6 cancelled 7 dead
  priority INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  token INTEGER NOT NULL,               -- of the last lease that ended
  version INTEGER NOT NULL,
  flags INTEGER NOT NULL,               -- 1 has a row in extras, 2 expired, 4 has a row in uniques
  started_at INTEGER,
  finished_at INTEGER,
  expires_at INTEGER
);

CREATE TABLE bodies (
  id INTEGER PRIMARY KEY,
  created_at INTEGER NOT NULL,
  args TEXT NOT NULL,
  max_attempts INTEGER NOT NULL,        -- as enqueued
  timeout INTEGER,                      -- NULL = none
  tags TEXT,                            -- separated and surrounded by 0x1f
  headers TEXT,
  correlation_id TEXT,
  reply_to TEXT,
  unique_key TEXT
);

CREATE TABLE grants (
  token INTEGER PRIMARY KEY,            -- of the first job; those of the others follow it
  worker TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  lease INTEGER NOT NULL,               -- its length; the expiry is kept in memory and begins anew at start
  ids TEXT NOT NULL                     -- JSON array of job ids
);

-- What happened to a running job since its claim, if anything did.
CREATE TABLE lease_notes (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  lease INTEGER NOT NULL,               -- the longest that it was renewed for: so long it begins anew at start
  cancel_requested INTEGER NOT NULL,
  cancel_reason TEXT
);

CREATE TABLE extras (
  id INTEGER PRIMARY KEY,
  result TEXT,
  checkpoint TEXT,
  progress_value REAL,
  progress_text TEXT,
  reason TEXT,
  description TEXT
);

CREATE TABLE errors (
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  worker TEXT NOT NULL,
  message TEXT NOT NULL,
  ran_for INTEGER NOT NULL,
  PRIMARY KEY (job, seq)
) WITHOUT ROWID;

-- What is to happen later, in the order in which it happens.
CREATE TABLE due (run_at INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (run_at, id)) WITHOUT ROWID;
CREATE TABLE expiring (expires_at INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (expires_at, id)) WITHOUT ROWID;

-- Terminal jobs by the time of their removal: one row per commit and retention, ids as a blob of little-endian int64.
CREATE TABLE finished (
  prune_at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,                  -- finished_at of all of them: a job that was retried since has another
  ids BLOB NOT NULL,
  PRIMARY KEY (prune_at, seq)
) WITHOUT ROWID;

CREATE TABLE dead_letter (id INTEGER PRIMARY KEY);

CREATE TABLE uniques (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  id INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;

CREATE TABLE idempotency (
  key TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  ids BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_expires ON idempotency (expires_at);

-- id 0: a = next job id, b = next token. 1 to 2^32-1: counters of that queue, a to l as in the view queue_counts.
-- From 2^32: live jobs (a) of the block of 4096 ids number id - 2^32.
CREATE TABLE tallies (
  id INTEGER PRIMARY KEY,
  a INTEGER NOT NULL DEFAULT 0, b INTEGER, c INTEGER, d INTEGER, e INTEGER, f INTEGER,
  g INTEGER, h INTEGER, i INTEGER, j INTEGER, k INTEGER
);

CREATE VIEW queue_counts AS
  SELECT q.name, q.paused, t.a AS enqueued, t.b AS pruned, t.c AS expired, t.d AS waiting, t.e AS scheduled,
         t.f AS available, t.g AS running, t.h AS completed, t.i AS retryable, t.j AS cancelled, t.k AS dead
  FROM queues q JOIN tallies t ON t.id = q.id;

CREATE VIEW leases AS
  SELECT j.id, g.token + e.key AS token, g.worker, g.claimed_at, g.lease
  FROM grants g CROSS JOIN json_each(g.ids) e CROSS JOIN jobs j ON j.id = e.value  -- in this order
  WHERE j.state = 2 AND j.token < g.token + e.key;

CREATE VIEW job AS
  SELECT j.id, q.name AS queue, k.name AS kind,
         CASE WHEN l.id IS NOT NULL THEN 'running' ELSE
           CASE j.state WHEN 0 THEN 'waiting' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'available' WHEN 4 THEN 'completed'
                        WHEN 5 THEN 'retryable' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'dead' END END AS state,
         j.priority, j.run_at, j.attempt + (l.id IS NOT NULL) AS attempt, j.max_attempts,
         coalesce(l.token, j.token) AS token, l.worker, b.created_at, j.started_at, j.finished_at, b.args, b.tags
  FROM jobs j JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue JOIN kinds k ON k.id = j.kind
       LEFT JOIN leases l ON l.id = j.id;

INSERT INTO tallies (id, a, b) VALUES (0, 1, 1);
