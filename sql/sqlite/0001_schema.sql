-- The SQLite store: one record per job, and everything that belongs to a directory store.
--
-- Conventions
--   Times       microseconds since 1970 in UTC. "Never" is 9223372036854775807.
--   Durations   microseconds.
--   Job states  0 waiting, 1 scheduled, 2 available (or running: see `grants`), 4 completed, 5 retryable,
--               6 cancelled, 7 dead. 3 is not stored.
--   NULL        "none", unless the column says otherwise.
--
-- PRAGMA application_id and user_version say that this is a Mainspring store, and which migration it has:
-- see src/store_sqlite/migrations.h.

-- Jobs ---------------------------------------------------------------------------------------------
--
-- The order of available jobs is not stored. It is (priority, run_at, id), and the store reads it at open
-- from the blocks of ids that have live jobs (`job_counts`).

CREATE TABLE queues (
  id INTEGER PRIMARY KEY,               -- 1, 2, … without gaps
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0,
  retention_completed INTEGER,          -- NULL = the store's default
  retention_dead INTEGER,               -- NULL = the store's default
  limits TEXT,                          -- JSON, as in PUT /v1/queues/NAME/limits
  meter TEXT,                           -- starts counted by the rate limit (RateMeter); NULL = no starts
  opens_at INTEGER,                     -- the rate limit blocks the queue until then; with costs: blocks the
                                        -- next job that is too expensive now
  fair_at INTEGER,                      -- virtual time of a queue with fair keys (FairKeys); NULL = 0
  empty_since INTEGER,                  -- when it was first seen without jobs and settings; NULL = not seen so
  empty_at INTEGER NOT NULL DEFAULT 0,  -- how many jobs had been enqueued then
  removed INTEGER NOT NULL DEFAULT 0,   -- 1 = not listed while no more than `empty_at` jobs have been enqueued
  pause TEXT                            -- JSON, as "pause" in GET /v1/queues/NAME; NULL = not paused
);

CREATE TABLE kinds (
  id INTEGER PRIMARY KEY,               -- 1, 2, … without gaps
  name TEXT NOT NULL UNIQUE
);

-- The part of a job that changes. Rows are small, so a commit that finishes many jobs touches few pages.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  state INTEGER NOT NULL,
  priority INTEGER NOT NULL,            -- 0 to 9
  run_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,             -- attempts that have ended
  max_attempts INTEGER NOT NULL,
  token INTEGER NOT NULL,               -- of the last lease that ended
  version INTEGER NOT NULL,
  flags INTEGER NOT NULL,               -- bits:
                                        --      1 has a row in extras
                                        --      2 expired
                                        --      4 has a row in uniques
                                        --      8 has rows in errors
                                        --     32 has follow_ups or a reply_to
                                        --     64 belongs to a session
                                        --    256 if it dies, it blocks the session
                                        --    512 if it dies, it parks the session
                                        --   1024 expires to dead instead of cancelled
                                        --   2048 has a limit_key
                                        --   4096 is a step of a workflow
                                        --   8192 an attempt ended without its worker's report, or the job was
                                        --        cancelled while it ran
                                        --  16384 has, or had, rows in memos. A running job may have its first
                                        --        memos before its row has the bit
                                        --  32768 deferred: state 0, until a claim names it or you release it.
                                        --        extras.reason says why
                                        -- 2^16 to 2^20: number of chained triggers on job ends that led to it
                                        -- 2^21 to 2^27: number of attempts in a row whose worker was lost
                                        -- 2^28 to 2^29: number of leases in a row that ended without a renewal
                                        --      and did not count
                                        -- 2^30 quarantined. In state 5 it is held and has no row in due; in
                                        --      any other state it has been released
  started_at INTEGER,
  finished_at INTEGER,
  expires_at INTEGER
);

-- The part of a job that is written once.
CREATE TABLE bodies (
  id INTEGER PRIMARY KEY,               -- of the job
  created_at INTEGER NOT NULL,
  args TEXT NOT NULL,                   -- JSON
  max_attempts INTEGER NOT NULL,        -- as enqueued
  timeout INTEGER,
  tags TEXT,                            -- separated and surrounded by 0x1f
  headers TEXT,                         -- JSON
  correlation_id TEXT,
  reply_to TEXT,                        -- queue of the reply
  unique_key TEXT,
  schedule INTEGER,                     -- the schedule that made the job
  follow_ups TEXT,                      -- JSON, as "then" in POST /v1/jobs: jobs to make when this one ends
  session TEXT,                         -- key of its session
  reply_session TEXT,                   -- key of a session of the queue reply_to
  limit_key TEXT                        -- the limits per key count the job under it; NULL = they ignore the job
);

-- What only some jobs have.
CREATE TABLE extras (
  id INTEGER PRIMARY KEY,               -- of the job
  result TEXT,
  checkpoint TEXT,
  progress_value REAL,
  progress_text TEXT,
  reason TEXT,
  description TEXT,
  warning TEXT                          -- what a worker ignored
);

-- Failed attempts.
CREATE TABLE errors (
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  worker TEXT NOT NULL,
  message TEXT NOT NULL,
  ran_for INTEGER NOT NULL,
  program_end TEXT,                     -- JSON {"exit_code", "signal", "oom", "peak_memory"}; NULL = no program,
                                        -- or its end is not known
  PRIMARY KEY (job, seq)
) WITHOUT ROWID;

-- Saved step results of jobs, by job and name. The first result of a name is kept.
CREATE TABLE memos (
  job INTEGER NOT NULL,
  name TEXT NOT NULL,
  result TEXT NOT NULL                  -- JSON
);
CREATE UNIQUE INDEX memos_by_name ON memos (job, name);

-- Leases of jobs -----------------------------------------------------------------------------------

-- One row per claim, with the jobs that it gave. A claim appends a row here and does not rewrite jobs. Its
-- jobs have consecutive tokens. A job is running if its row says available and a grant gives it a token
-- above the token of its row: the views `leases` and `job` show this. The row is removed when all its jobs
-- have ended.
CREATE TABLE grants (
  token INTEGER PRIMARY KEY,            -- of the first job
  worker TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  lease INTEGER NOT NULL,               -- length. The expiry is in memory: at open every lease starts again
  ids TEXT NOT NULL                     -- JSON array of job ids
);

-- Changes to a running job since its claim. Most jobs have no row.
CREATE TABLE lease_notes (
  id INTEGER PRIMARY KEY,               -- of the job
  version INTEGER NOT NULL,
  lease INTEGER NOT NULL,               -- the longest that was asked for
  cancel_requested INTEGER NOT NULL,
  cancel_reason TEXT,
  kept INTEGER NOT NULL                 -- the longest that a renewal returned: the lease starts with it at open; 0 = none
);

-- Lists of jobs ------------------------------------------------------------------------------------

-- Jobs in states 1 and 5, in the order in which they become available.
CREATE TABLE due (run_at INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (run_at, id)) WITHOUT ROWID;
CREATE TABLE expiring (expires_at INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (expires_at, id)) WITHOUT ROWID;

-- Terminal jobs by the time of their removal: one row per commit and retention.
CREATE TABLE finished (
  prune_at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,                  -- finished_at of all these jobs. A job that was retried since has another
  ids BLOB NOT NULL,                    -- little-endian int64
  PRIMARY KEY (prune_at, seq)
) WITHOUT ROWID;

CREATE TABLE dead_letter (
  id INTEGER PRIMARY KEY,               -- of the job
  queue INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL,         -- of its kind, reason and description, as a signed number
  at INTEGER NOT NULL                   -- finished_at
);

-- Searchable paths of queues (queues.limits), and the jobs by the values at these paths.
CREATE TABLE search_paths (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
  queue INTEGER NOT NULL,
  path TEXT NOT NULL,
  above INTEGER NOT NULL,               -- jobs with this id or a higher one are in search_values
  removed INTEGER NOT NULL DEFAULT 0    -- 1 = its values are being deleted
);
CREATE TABLE search_values (
  path INTEGER NOT NULL,                -- search_paths.id
  value BLOB NOT NULL,                  -- a key, as in src/api/search_keys.h
  job INTEGER NOT NULL,
  PRIMARY KEY (path, value, job)
) WITHOUT ROWID;

CREATE TABLE quarantine (
  id INTEGER PRIMARY KEY,               -- of the job
  since INTEGER NOT NULL
);

-- Unique keys.
CREATE TABLE uniques (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  id INTEGER NOT NULL,                  -- of the job
  until INTEGER NOT NULL,               -- end of the window
  ended INTEGER,                        -- final state of a job that has been pruned; the row is removed at `until`.
                                        -- NULL = the job still exists
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX uniques_ended ON uniques (until) WHERE ended IS NOT NULL;

CREATE TABLE idempotency (
  key TEXT PRIMARY KEY,                 -- the queue, a line feed, the key of the request. Of a request for several
                                        -- queues: a digest of their names instead of the queue
  fingerprint TEXT NOT NULL,
  ids BLOB NOT NULL,                    -- little-endian int64
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_expires ON idempotency (expires_at);

-- Counters, updated in the commit of what they count, and kept together on few pages.
--   id 0                 a = next job id, b = next token, c = 1 in a backup until it is opened, d = next session
--                        id, e = next workflow id, f = 1 while rows of `sessions` may lag, g = the restart
--                        allowance in microseconds, 0 or NULL = none. No id is given twice.
--   id 1 to 2^32 - 1     counters of the queue with this id: a to k as in the view `queue_counts`.
--   id from 2^32         a = live jobs of the block of 4096 job ids number id - 2^32.
CREATE TABLE job_counts (
  id INTEGER PRIMARY KEY,
  a INTEGER NOT NULL DEFAULT 0, b INTEGER, c INTEGER, d INTEGER, e INTEGER, f INTEGER,
  g INTEGER, h INTEGER, i INTEGER, j INTEGER, k INTEGER
);
INSERT INTO job_counts (id, a, b, d, e, f) VALUES (0, 1, 1, 1, 1, 0);

-- Limits and order of queues -----------------------------------------------------------------------

-- Fair keys: the virtual time up to which a key has been served. A key that is not ahead of queues.fair_at
-- may have no row. '' is the key of jobs without a limit_key.
CREATE TABLE fair_keys (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;

-- Rates per key: starts counted for a limit_key (RateMeter). A key without counted starts may have no row.
CREATE TABLE key_meters (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  meter TEXT NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;

-- Circuit breakers, which queues.limits name.
CREATE TABLE breakers (
  name TEXT PRIMARY KEY,
  settings TEXT NOT NULL,               -- JSON
  state TEXT                            -- counted outcomes (BreakerMeter); NULL = closed, without failures
) WITHOUT ROWID;

-- Named locks --------------------------------------------------------------------------------------

CREATE TABLE named_leases (
  name TEXT PRIMARY KEY,
  state INTEGER NOT NULL,               -- 0 held, 1 released, 2 expired
  holder TEXT NOT NULL,                 -- the current or last one
  token INTEGER NOT NULL,               -- of this holder
  ttl INTEGER NOT NULL,                 -- the longest that this holder asked for. The expiry is in memory: at open
                                        -- the lease starts again with this length
  since INTEGER NOT NULL,
  value TEXT                            -- written by holders, kept for the next one
) WITHOUT ROWID;

-- Schedules ----------------------------------------------------------------------------------------
--
-- A tick writes its ledger row, its job and its schedule in one transaction.

CREATE TABLE schedules (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused: jobs of a removed schedule keep its id
  name TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL,
  definition TEXT NOT NULL,             -- JSON, as in PUT /v1/schedules/NAME
  paused INTEGER NOT NULL,
  paused_reason TEXT,
  next INTEGER NOT NULL,                -- nominal time of the first undecided tick
  next_fire INTEGER NOT NULL,           -- `next` with jitter
  skip_before INTEGER NOT NULL,         -- ticks before this time are skipped
  skip_reason TEXT,
  remaining INTEGER,                    -- runs left; NULL = no limit
  fired INTEGER NOT NULL,
  last_fired INTEGER,
  last_job INTEGER NOT NULL,
  timeout_override INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  next_seq INTEGER NOT NULL             -- of its next row in the ledger
);

-- The last version of each removed schedule, so that no version of a name is used twice.
CREATE TABLE removed_schedules (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL
) WITHOUT ROWID;

-- The outcome of each tick: the newest rows of each schedule.
CREATE TABLE ledger (
  schedule INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  nominal INTEGER NOT NULL,
  until INTEGER,                        -- the last tick of a row for several ticks
  count INTEGER NOT NULL,               -- ticks; 0 = too many to count
  source INTEGER NOT NULL,              -- 0 schedule, 1 trigger, 2 backfill, 3 wake
  state INTEGER NOT NULL,               -- 0 fired, 1 skipped
  past_due INTEGER NOT NULL,
  job INTEGER,
  reason TEXT,
  note TEXT,
  decided_at INTEGER NOT NULL,
  PRIMARY KEY (schedule, seq)
) WITHOUT ROWID;
-- A tick never fires twice.
CREATE UNIQUE INDEX ledger_fired ON ledger (schedule, nominal, version) WHERE state = 0 AND source IN (0, 2);

-- Schedule links: jobs of schedules that have not ended. The overlap policies read them.
CREATE TABLE schedule_jobs (
  job INTEGER PRIMARY KEY,
  schedule INTEGER NOT NULL
);

-- Sessions -----------------------------------------------------------------------------------------
--
-- Jobs of a session run one at a time. The session head, column `head`, is the job that may run. The other
-- live jobs of the session wait: their own rows (bodies.session) say so, and the store keeps them in memory.
-- While a worker holds the session, the head is in state 0 instead of 2.

-- One row per session that has a live job, a holder or a state, or is stopped. The row of a session that is
-- not held, not stopped and has no state may lag: its jobs then give `jobs` and `head`, and may have all ended.
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  jobs INTEGER NOT NULL,                -- live jobs, the head included
  head INTEGER NOT NULL,                -- the session head; 0 = none
  stop INTEGER NOT NULL,                -- 0 not stopped, 1 blocked, 2 parked
  stopped_by INTEGER NOT NULL,          -- the dead job that stopped it
  worker TEXT,                          -- its holder
  token INTEGER NOT NULL,               -- of the holder; 0 = not held
  lease INTEGER NOT NULL,               -- the longest that this holder asked for: its length at open
  state_bytes INTEGER NOT NULL,         -- 0 = no row in session_states
  changed_at INTEGER NOT NULL,
  UNIQUE (queue, key)
);
CREATE INDEX sessions_held ON sessions (id) WHERE token <> 0;
CREATE INDEX sessions_forgotten ON sessions (changed_at) WHERE jobs = 0 AND token = 0 AND stop = 0;

-- Separate from `sessions`, so that moving the head does not rewrite up to 256 KiB.
CREATE TABLE session_states (
  session INTEGER PRIMARY KEY,
  state TEXT NOT NULL                   -- JSON
);

-- Workflows ----------------------------------------------------------------------------------------
--
-- A workflow of few steps is packed (src/workflow/step_rows.h): `data` has the states of its steps, and one
-- row of workflow_texts its input and definitions. A larger workflow has rows for each step. Jobs of `each`
-- have rows of their own in both forms.

CREATE TABLE workflows (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT,
  state INTEGER NOT NULL,               -- 0 running, 1 undoing, 2 parked, 3 completed, 4 failed, 5 undone, 6 cancelled
  wake_at INTEGER,                      -- of its first timer or deadline
  finished_at INTEGER,                  -- NULL = not terminal
  data TEXT NOT NULL                    -- JSON (workflow::Summary)
);
CREATE INDEX workflow_keys ON workflows (name, key) WHERE key IS NOT NULL;
CREATE INDEX workflows_wake ON workflows (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflows_finished ON workflows (state, finished_at) WHERE finished_at IS NOT NULL;

-- What changes while a workflow runs, by kind (WorkflowRow in src/workflow/rows.h) and number.
CREATE TABLE workflow_rows (
  workflow INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  number INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITHOUT ROWID;

-- What is written once: kinds 0 text, 1 spec, 3 result, 4 item. Definitions are large. In workflow_rows each
-- step end would rewrite pages that contain them.
CREATE TABLE workflow_texts (
  workflow INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  number INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITHOUT ROWID;

-- The step of each job of a workflow that has not ended.
CREATE TABLE workflow_jobs (
  job INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  step INTEGER NOT NULL,
  undo INTEGER NOT NULL                 -- 1 = it undoes the step
);

-- Triggers -----------------------------------------------------------------------------------------

CREATE TABLE triggers (
  name TEXT PRIMARY KEY,
  definition TEXT NOT NULL,             -- JSON
  state TEXT NOT NULL,                  -- JSON
  secret TEXT                           -- digest of a token, or key of signatures
) WITHOUT ROWID;

-- What fired, by number and by the id of the event.
CREATE TABLE trigger_events (
  name TEXT NOT NULL,                   -- of the trigger
  seq INTEGER NOT NULL,
  event TEXT,                           -- NULL = the event had no id
  fired_at INTEGER NOT NULL,
  made_at INTEGER,                      -- NULL = not known
  job INTEGER NOT NULL,                 -- 0 = the event made no job
  reason TEXT,                          -- why the event made no job
  PRIMARY KEY (name, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX trigger_event_ids ON trigger_events (name, event) WHERE event IS NOT NULL;

-- Access -------------------------------------------------------------------------------------------

CREATE TABLE tokens (
  name TEXT PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,          -- SHA-256 of the token. The token itself is not stored
  scopes TEXT NOT NULL,                 -- separated by blanks
  rate INTEGER NOT NULL,                -- requests per second; 0 = the server's default
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;

-- One row per recorded change, appended in the transaction of the change. Each hash covers the previous one.
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  origin TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  before TEXT,                          -- JSON; NULL = the object did not exist
  after TEXT,                           -- JSON; NULL = the object does not exist any more
  hash BLOB NOT NULL
);

-- The ends of the chain. 0: the newest record that was pruned; 1: the newest record.
CREATE TABLE audit_marks (
  id INTEGER PRIMARY KEY CHECK (id IN (0, 1)),
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL
);
INSERT INTO audit_marks (id, seq, hash) VALUES (0, 0, zeroblob(32)), (1, 0, zeroblob(32));

-- The triggers stop accidents. The chain shows deliberate changes.
CREATE TRIGGER audit_appends_only BEFORE INSERT ON audit
  WHEN NEW.seq <= max((SELECT max(seq) FROM audit_marks), (SELECT coalesce(max(seq), 0) FROM audit))
  BEGIN SELECT RAISE(ABORT, 'audit records are only appended'); END;
CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'audit records are never changed'); END;
-- Pruning moves mark 0 first, then removes the records up to it.
CREATE TRIGGER audit_oldest_go_first BEFORE DELETE ON audit
  WHEN OLD.seq > (SELECT seq FROM audit_marks WHERE id = 0) OR OLD.seq > (SELECT min(seq) FROM audit)
  BEGIN SELECT RAISE(ABORT, 'only the oldest audit records are removed, by pruning'); END;
CREATE TRIGGER audit_marks_advance BEFORE UPDATE ON audit_marks
  WHEN NEW.id <> OLD.id OR NEW.seq < OLD.seq
  BEGIN SELECT RAISE(ABORT, 'audit marks only advance'); END;
CREATE TRIGGER audit_marks_stay BEFORE DELETE ON audit_marks
  BEGIN SELECT RAISE(ABORT, 'audit marks are never removed'); END;

-- History ------------------------------------------------------------------------------------------

-- What the history counts: a kind of a queue; all kinds of a queue (kind ''); everything (both '').
-- At most 1,000 queues with 100 kinds each, and 5,000 kinds in all. The rest is counted as '~other'.
CREATE TABLE history_series (
  id INTEGER PRIMARY KEY,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  last_at INTEGER NOT NULL,             -- hour of its newest row
  UNIQUE (queue, kind)
);

-- Counts per minute and per hour. The rows of one minute are next to each other, because a commit writes them together.
CREATE TABLE history (
  span INTEGER NOT NULL,                -- length: 60000000 or 3600000000
  at INTEGER NOT NULL,                  -- start, a multiple of span
  series INTEGER NOT NULL,
  enqueued INTEGER NOT NULL,            -- jobs created
  started INTEGER NOT NULL,             -- attempts
  completed INTEGER NOT NULL,           -- jobs
  failed INTEGER NOT NULL,              -- attempts
  dead INTEGER NOT NULL,                -- jobs
  cancelled INTEGER NOT NULL,           -- jobs
  wait TEXT NOT NULL,                   -- from run_at to the claim: bucket,count,bucket,count… (model/sketch.h)
  run TEXT NOT NULL,                    -- from the claim to the end of attempts that completed or failed
  PRIMARY KEY (span, at, series)
) WITHOUT ROWID;

-- Marks and saved views of the dashboard -----------------------------------------------------------

CREATE TABLE marks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  text TEXT NOT NULL,
  who TEXT NOT NULL,
  source INTEGER NOT NULL               -- 0 manual 1 worker
);
CREATE INDEX marks_by_time ON marks (at, id);
CREATE UNIQUE INDEX marks_of_workers ON marks (text) WHERE source = 1;

CREATE TABLE saved_views (
  name TEXT PRIMARY KEY,
  page TEXT NOT NULL,
  query TEXT NOT NULL,
  who TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Copies and moves of the store --------------------------------------------------------------------

CREATE TABLE moves (
  what TEXT PRIMARY KEY CHECK (what IN ('self', 'copying', 'copied', 'moved')),
                                        -- self     this store: its id, with which a resumed copy finds its source
                                        -- copying  unfinished copy of another store: it cannot be opened
                                        -- copied   finished copy of another store
                                        -- moved    moved to another place: it can only be read
  store TEXT NOT NULL,                  -- id of that store, random
  place TEXT NOT NULL,                  -- a directory, or a URL without its password; '' for self
  at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO moves (what, store, place, at) VALUES ('self', lower(hex(randomblob(16))), '', 0);

-- Views for people: use them when you look at the database. ----------------------------------------

CREATE VIEW queue_counts AS
  SELECT q.name, q.paused, t.a AS enqueued, t.b AS pruned, t.c AS expired, t.d AS waiting, t.e AS scheduled,
         t.f AS available, t.g AS running, t.h AS completed, t.i AS retryable, t.j AS cancelled, t.k AS dead
  FROM queues q JOIN job_counts t ON t.id = q.id;

-- Leases of running jobs. CROSS JOIN keeps this order: another one walks all available jobs for each grant.
CREATE VIEW leases AS
  SELECT j.id, g.token + e.key AS token, g.worker, g.claimed_at, g.lease
  FROM grants g CROSS JOIN json_each(g.ids) e CROSS JOIN jobs j ON j.id = e.value
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
