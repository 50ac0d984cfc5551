-- The PostgreSQL store: tables, indexes, triggers and views. $schema is the name of the schema.
-- docs/internals/store_postgres.md explains how nodes use these tables.
--
-- Conventions:
--   - Times and durations are microseconds. Times are counted from 1970 in UTC; "never" is 9223372036854775807.
--   - Leases end by the clock of this database.
--   - NULL means "not set", unless a column says otherwise.
--   - A flag in `jobs` says whether a job has rows in a side table, so that most jobs need no second lookup.
--   - Tables with a fillfactor leave room in each page: an update stays in its page and touches no index.
--   - Queues of work (ready, due, leased, …) are vacuumed early, because claims must walk over their dead entries.

-- ==== the store ==================================================================================================

-- One row: the version of this schema. Builds from before the first release kept it in a table `meta`.
CREATE TABLE $schema.schema_version (
  version bigint NOT NULL,              -- the number of the newest migration that was applied
  compatible bigint NOT NULL,           -- the oldest schema that a program may know and still use this store
  one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

CREATE SEQUENCE $schema.job_ids;
CREATE SEQUENCE $schema.workflow_ids;
CREATE SEQUENCE $schema.tokens_given;   -- fencing tokens of jobs, sessions and named locks
CREATE SEQUENCE $schema.node_numbers;
CREATE SEQUENCE $schema.row_numbers;    -- `seq` in `finished` and `leased`

-- Where the store came from and where it went. `what` is one of
--   self     this store: a random number, so that an interrupted copy finds the store it belongs to
--   copying  this store is an unfinished copy of another store; no node may serve it
--   copied   this store was copied from another store
--   moved    this store continues elsewhere; no node may serve it
CREATE TABLE $schema.moves (
  what text COLLATE "C" PRIMARY KEY CHECK (what IN ('self', 'copying', 'copied', 'moved')),
  store text NOT NULL,                  -- the number of that store
  place text NOT NULL,                  -- a directory, or a URL without its password; '' for self
  at bigint NOT NULL,
  run text NOT NULL DEFAULT ''          -- copying: which of two concurrent copies continues (the later one)
);
INSERT INTO $schema.moves (what, store, place, at) VALUES ('self', replace(gen_random_uuid()::text, '-', ''), '', 0);

-- Options of the nodes that SQL functions need. Each node writes them when it opens the store.
CREATE TABLE $schema.settings (
  name text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);
INSERT INTO $schema.settings (name, value) VALUES ('retention_completed', 86400000000), ('retention_dead', 2592000000000),
  ('retention_replies', 86400000000);

-- What nodes cache, with a number that every change raises.
CREATE TABLE $schema.versions (
  what text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO $schema.versions (what, version) VALUES ('queues', 1), ('schedules', 1), ('tokens', 1);

-- Has its row as long as no acknowledged lease renewal can be lost. Renewals do not wait for the disk, so a crash may
-- lose the last ones. The table is unlogged: it is empty after a crash, and on a standby that became the primary. The
-- first node that finds it empty restores the row and restarts every lease, in one transaction, before any lease ends.
CREATE UNLOGGED TABLE $schema.awake (one boolean PRIMARY KEY DEFAULT true CHECK (one));
INSERT INTO $schema.awake DEFAULT VALUES;

CREATE TABLE $schema.secrets (
  name text PRIMARY KEY,                -- 'notifier': with it nodes prove to each other that they share this store
  secret bytea NOT NULL
);

-- ==== nodes ======================================================================================================

CREATE TABLE $schema.nodes (
  id bigint PRIMARY KEY,                -- from node_numbers
  incarnation text NOT NULL,            -- random, new for each process
  address text NOT NULL,                -- of its peer notifier; '' = none
  program text NOT NULL,                -- its version
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  info text NOT NULL DEFAULT '{}'       -- JSON: its workers
) WITH (fillfactor = 50);

-- Nodes that lost the answer to a commit. Batches of their earlier sessions can no longer commit. So a node that looks
-- for such a batch and does not find it may repeat it, even if the first one is still under way somewhere.
CREATE TABLE $schema.given_up (
  node bigint PRIMARY KEY,
  session bigint NOT NULL,              -- the first session that may commit
  at bigint NOT NULL
);

-- ==== queues =====================================================================================================

CREATE TABLE $schema.queues (
  id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE,
  paused boolean NOT NULL DEFAULT false,
  retention_completed bigint,           -- NULL = the store's default
  retention_dead bigint,
  limits text,                          -- JSON: limits, order, costs and breaker. A claim locks the row of such a queue first
  meter text,                           -- what the rate has started
  opens_at bigint,                      -- the rate closes the queue until then; with costs: when the next cost fits
  fair_at bigint,                       -- fair keys: the virtual time of the queue; NULL = 0
  settings text,                        -- JSON: as `limits`, if no claim needs to know them; `limits` is NULL then
  keys_open_at bigint,                  -- when the first limit key that its rate closes opens again
  empty_since bigint,                   -- when it was first seen without jobs and settings; NULL = not seen so
  empty_at bigint NOT NULL DEFAULT 0,   -- how many jobs had been enqueued then
  removed boolean NOT NULL DEFAULT false, -- not listed while no more than `empty_at` jobs have been enqueued
  pause text                            -- JSON, as "pause" in GET /v1/queues/NAME; NULL = not paused
);

CREATE TABLE $schema.kinds (
  id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE
);

-- Counters: each batch appends what it changed. The sum of all rows is the value. Old rows are folded into one from time
-- to time. Rows are never updated, because an open transaction of another client would make updates slow.
-- (node, batch) identifies a batch: a commit whose answer was lost is looked up here.
CREATE TABLE $schema.job_counts (
  node bigint NOT NULL,
  batch bigint NOT NULL,
  at bigint NOT NULL,
  queue integer NOT NULL,               -- 0 = none: the row only says that the batch was committed
  enqueued bigint NOT NULL DEFAULT 0,
  pruned bigint NOT NULL DEFAULT 0,
  expired bigint NOT NULL DEFAULT 0,
  waiting bigint NOT NULL DEFAULT 0,
  scheduled bigint NOT NULL DEFAULT 0,
  available bigint NOT NULL DEFAULT 0,
  running bigint NOT NULL DEFAULT 0,
  completed bigint NOT NULL DEFAULT 0,
  retryable bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  dead bigint NOT NULL DEFAULT 0,
  ids bigint[],                         -- the new jobs of a batch that only enqueued: its answer, if the first one is lost
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY  -- a publication of the database refuses deletes without a key
);
-- Ids hardly compress, and trying costs more than the rest of such a row.
ALTER TABLE $schema.job_counts ALTER COLUMN ids SET STORAGE EXTERNAL;

-- ==== jobs =======================================================================================================

-- One row for each job. A claim and a completion rewrite the row, and log only what changed. Columns that change come
-- first, the payload last, and no column that changes is indexed. A page is filled by a third, because it must hold all
-- three versions of a row (enqueued, running, completed): the first one is only removed after the oldest snapshot ends.
CREATE TABLE $schema.jobs (
  state smallint NOT NULL,              -- 0 waiting 1 scheduled 2 available 3 running 4 completed 5 retryable 6 cancelled 7 dead
  flags smallint NOT NULL,              -- a sum of
                                        --     1  has a row in `extras`
                                        --     2  expired
                                        --     4  has a row in `uniques`
                                        --     8  has rows in `errors`
                                        --    16  cancellation was requested
                                        --    32  its end or its progress creates jobs (follow_ups, reply_to)
                                        --    64  belongs to a session
                                        --   128  jobs that it creates belong to a session
                                        --   256  its death blocks its session
                                        --   512  its death parks its session
                                        --  1024  dead instead of cancelled when it expires
                                        --  2048  has a limit_key
                                        --  4096  belongs to a step of a workflow
                                        --  8192  of a step: an attempt ended without a report of its worker, or was cancelled
                                        -- 16384  has rows in `memos`
  priority smallint NOT NULL,
  attempt integer NOT NULL,
  max_attempts integer NOT NULL,
  version bigint NOT NULL,              -- raised by every change
  token bigint NOT NULL,                -- of the last claim; 0 = never claimed
  lease_until bigint NOT NULL,          -- running: when the lease ends
  lease bigint NOT NULL,                -- the longest lease that this holder asked for
  claimed_at bigint NOT NULL,           -- time limits are measured from here
  run_at bigint NOT NULL,
  started_at bigint NOT NULL,           -- 0 = never
  finished_at bigint NOT NULL,          -- 0 = not yet
  expires_at bigint NOT NULL,           -- 0 = never
  worker text,                          -- running: its holder
  id bigint PRIMARY KEY,
  created_at bigint NOT NULL,
  timeout bigint NOT NULL,
  schedule bigint NOT NULL,             -- the schedule that created the job; 0 = none
  queue integer NOT NULL,
  kind integer NOT NULL,
  budget integer NOT NULL,              -- max_attempts as enqueued
  unique_key text,
  correlation_id text,
  reply_to text,
  tags text[],
  headers text,                         -- JSON
  args text NOT NULL,                   -- JSON
  follow_ups text,                      -- JSON, as the member "then" of POST /v1/jobs
  session text COLLATE "C",             -- its key
  reply_session text,
  trigger_depth smallint,               -- how many triggers on ends of jobs led to this job, one after the other
  limit_key text COLLATE "C",           -- what the limits per key of its queue count it under
  deferred boolean,                     -- it is waiting for a claim by id or for an operator; extras.reason says why
  lost smallint,                        -- lost attempts in a row, and 128 for each that did not count. A completion
                                        -- on the fast path leaves it as it is
  quarantined bigint,                   -- since when it is quarantined. In state 5 it waits and has no row in `due`; in any
                                        -- other state it is released
  kept bigint                           -- running: the longest lease that a renewal returned; NULL = never renewed
) WITH (fillfactor = 33, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The ready queue: one row for each available job that is not in `packs` or `held_back`. It is not part of `jobs`,
-- because claims must walk over its dead entries; nodes remember where its first live entry is.
CREATE TABLE $schema.ready (
  queue integer NOT NULL,
  priority smallint NOT NULL,
  kind integer NOT NULL,
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  expires_at bigint NOT NULL,           -- not to be started from then on; 0 = never expires
  session bigint NOT NULL DEFAULT 0,    -- sessions.id; 0 = none
  PRIMARY KEY (queue, priority, run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- For workers that accept the next free session.
CREATE INDEX ready_sessions ON $schema.ready (queue, priority, run_at, id) WHERE session <> 0;

-- Packed ready entries: one row for up to a hundred jobs that were enqueued together. A job belongs to its entry as long
-- as its row is unchanged (state 2, version 1). Every change raises the version and so removes the job from the entry;
-- its id stays and means nothing. A job that becomes available again goes to `ready`.
CREATE TABLE $schema.packs (
  queue integer NOT NULL,
  priority smallint NOT NULL,
  kind integer NOT NULL,
  run_at bigint NOT NULL,
  first bigint NOT NULL,                -- the smallest id when the entry was created
  ids bigint[] NOT NULL,
  PRIMARY KEY (queue, priority, run_at, first)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE $schema.packs ALTER COLUMN ids SET STORAGE EXTERNAL;

-- When scheduled and retryable jobs become available.
CREATE TABLE $schema.due (
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- When jobs that have not started expire.
CREATE TABLE $schema.expiring (
  expires_at bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (expires_at, id)
);

-- When to look whether leases have ended: one row for each claim. Renewals do not move it. The node that looks moves it
-- for the jobs that still run.
CREATE TABLE $schema.leased (
  look_at bigint NOT NULL,
  seq bigint NOT NULL,
  node bigint NOT NULL,                 -- the node of the claim
  ids bigint[] NOT NULL,
  PRIMARY KEY (look_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE $schema.leased ALTER COLUMN ids SET STORAGE EXTERNAL;

-- When terminal jobs are pruned: one row for each batch and retention.
CREATE TABLE $schema.finished (
  prune_at bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,                   -- finished_at of all of them; a job that was retried since has another one
  ids bigint[] NOT NULL,
  PRIMARY KEY (prune_at, seq)
);
ALTER TABLE $schema.finished ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE $schema.dead_letter (
  id bigint PRIMARY KEY,
  queue integer NOT NULL,
  kind integer NOT NULL,
  fingerprint bigint NOT NULL,          -- of its kind, reason and description
  at bigint NOT NULL                    -- finished_at
);

-- Searchable paths of queues, and the jobs by the values at these paths. Triggers on `jobs` write search_values, one pair
-- for each queue with paths: a node that has not heard of a path yet, and enqueue(), cannot miss it. step_search() creates
-- these triggers, adds older jobs step by step, and deletes the values of removed paths.
CREATE TABLE $schema.search_paths (
  id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue integer NOT NULL,
  path text COLLATE "C" NOT NULL,       -- names with dots between them
  stage smallint NOT NULL,              -- 0 new, without a trigger; 1 in use; 2 removed, the trigger still knows it;
                                        -- 3 removed, its values are being deleted
  above bigint NOT NULL,                -- in use: jobs with this id or a higher one are in search_values
  next_at bigint                        -- when step_search() continues; NULL = nothing is to be done
);
CREATE UNIQUE INDEX search_paths_in_use ON $schema.search_paths (queue, path) WHERE stage < 2;
CREATE TABLE $schema.search_values (
  path integer NOT NULL,                -- search_paths.id
  value bytea NOT NULL,                 -- a key, as search_value() makes it
  job bigint NOT NULL,
  PRIMARY KEY (path, value, job)
);

-- Deferred jobs. A writer has locked the job.
CREATE TABLE $schema.deferred (id bigint PRIMARY KEY);

-- Quarantined jobs. A row whose job has ended is void, and removed when it is found.
CREATE TABLE $schema.quarantine (
  id bigint PRIMARY KEY,
  queue integer NOT NULL
);

CREATE TABLE $schema.extras (
  id bigint PRIMARY KEY,
  progress_value double precision,
  progress_text text,
  cancel_reason text,                   -- of the cancellation request
  reason text,
  description text,
  result text,                          -- JSON
  checkpoint text,                      -- JSON
  warning text                          -- what a worker ignored
) WITH (fillfactor = 80);

-- One row for each failed attempt.
CREATE TABLE $schema.errors (
  job bigint NOT NULL,
  seq bigint NOT NULL,                  -- the token of the attempt
  attempt integer NOT NULL,
  at bigint NOT NULL,
  ran_for bigint NOT NULL,
  worker text NOT NULL,
  message text NOT NULL,
  program_end text,                     -- JSON: {"exit_code", "signal", "oom", "peak_memory"}, as far as the worker knew
  PRIMARY KEY (job, seq)
);

-- Saved step results of jobs, for their later attempts. The first result of a name stays. A writer has locked the job.
CREATE TABLE $schema.memos (
  job bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  result text NOT NULL,                 -- JSON
  PRIMARY KEY (job, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Which job has a unique key. With a window, a pruned job keeps its key until the window is over; then the row is removed.
CREATE TABLE $schema.uniques (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  until bigint NOT NULL,                -- the end of the window; 0 = none
  ended smallint,                       -- the state in which the job ended; NULL = it was not pruned
  PRIMARY KEY (queue, key)
);
-- Without `id`: taking a key that has no window changes no index.
CREATE INDEX uniques_ended ON $schema.uniques (until) WHERE ended IS NOT NULL;

CREATE TABLE $schema.idempotency (
  key text COLLATE "C" PRIMARY KEY,     -- the queue, a line feed, the key of the request. Of a request for several queues: a
                                        -- digest of their names instead of the queue
  expires_at bigint NOT NULL,
  fingerprint text NOT NULL,            -- of the request
  ids bigint[] NOT NULL                 -- its answer
);
CREATE INDEX idempotency_expires ON $schema.idempotency (expires_at);

-- ==== limits =====================================================================================================

-- A claim that uses these tables has locked the row of the queue.

-- Available jobs that are here instead of in `ready`: a claim found the limit of their key reached. With fair keys: all
-- jobs that claims have read from the ready queue and not returned. A row is void, and removed when it is found, if its job
-- is no longer available or has another place in the queue (it is in `ready` then).
CREATE TABLE $schema.held_back (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,        -- '' = the jobs without a limit_key
  kind integer NOT NULL,
  priority smallint NOT NULL,
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  expires_at bigint NOT NULL,           -- as in `ready`
  PRIMARY KEY (queue, key, kind, priority, run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX held_back_jobs ON $schema.held_back (id);
CREATE INDEX held_back_times ON $schema.held_back (queue, run_at);

-- Jobs that a claim started under limits per key, or whose kind has a cost. The end of a job does not touch this table: a
-- row whose job does not run is void, and removed when its key is looked at.
CREATE TABLE $schema.running_keys (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,        -- a limit_key, or '' for a job whose kind has a cost
  id bigint NOT NULL,
  PRIMARY KEY (queue, key, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX running_keys_jobs ON $schema.running_keys (id);

-- What each limit key has started under the rate of its queue.
CREATE TABLE $schema.key_meters (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  opens_at bigint,                      -- the rate closes the key until then
  forgotten_at bigint NOT NULL,         -- the row may be removed from then on: the key is as if it had started nothing
  PRIMARY KEY (queue, key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_meters_openings ON $schema.key_meters (queue, opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX key_meters_ends ON $schema.key_meters (queue, forgotten_at);

-- Fair keys: the virtual time up to which each key was served. Keys that are not ahead of their queue may be missing. The
-- key '' is that of the jobs without a limit_key.
CREATE TABLE $schema.fair_keys (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Circuit breakers, which the limits of queues name. A claim locks the row of the queue, then that of its breaker.
CREATE TABLE $schema.breakers (
  name text COLLATE "C" PRIMARY KEY,
  settings text NOT NULL,               -- JSON
  state text                            -- JSON; NULL = closed, without failures
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Ends of attempts that their breaker has not counted yet. They are written with the end, without a lock of the breaker. An
-- end that succeeded leaves none: a claim looks at the probes that it started.
CREATE TABLE $schema.breaker_notes (
  breaker text COLLATE "C" NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  job bigint NOT NULL,
  token bigint NOT NULL,
  began bigint NOT NULL,                -- the start of the attempt
  at bigint NOT NULL,                   -- its end
  failed boolean NOT NULL,
  open_for bigint,                      -- the breaker opens for this long
  PRIMARY KEY (breaker, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- ==== sessions ===================================================================================================

-- One row for each session that has a live job, a holder, a state, or is stopped. Changing its head or its waiting jobs
-- needs a lock of the row, taken before the lock of any job. The batch that empties a session removes its row.
CREATE TABLE $schema.sessions (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  head bigint NOT NULL DEFAULT 0,       -- the head: the job that may run; 0 = none. It is not in session_jobs. While the
                                        -- session has a holder, the head is in state 0 where it would be available
  first bigint NOT NULL DEFAULT 0,      -- no waiting job has a smaller id
  jobs bigint NOT NULL DEFAULT 0,       -- live jobs: the head and those that wait
  stop smallint NOT NULL DEFAULT 0,     -- 0 none 1 blocked 2 parked
  stopped_by bigint NOT NULL DEFAULT 0, -- the dead job
  token bigint NOT NULL DEFAULT 0,      -- of the holder; 0 = none
  lease bigint NOT NULL DEFAULT 0,      -- as it was last asked for
  kept bigint NOT NULL DEFAULT 0,       -- the longest lease that this holder asked for
  lease_until bigint NOT NULL DEFAULT 0,
  look_at bigint NOT NULL DEFAULT 0,    -- held: when to look whether the lease has ended
  prune_at bigint NOT NULL DEFAULT 0,   -- a session with nothing but a state: when it is removed
  changed_at bigint NOT NULL DEFAULT 0,
  state_bytes integer NOT NULL DEFAULT 0,
  worker text,                          -- the holder
  state text,                           -- JSON
  UNIQUE (queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX sessions_held ON $schema.sessions (look_at) WHERE look_at <> 0;
CREATE INDEX sessions_prune ON $schema.sessions (prune_at) WHERE prune_at <> 0;

-- Jobs that wait to become the head of their session, in the order of their ids.
CREATE TABLE $schema.session_jobs (
  session bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (session, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- ==== workflows ==================================================================================================

-- One row for each workflow: what it is found by, and the rest as JSON. A workflow of at most 16 steps is packed: `data` has
-- the states of its steps ("states") and their queues ("queues"). The row is written at the end of each step, so its page
-- leaves room. Changing anything of a workflow needs a lock of its row, taken after the locks of the jobs that ended.
CREATE TABLE $schema.workflows (
  id bigint PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  state smallint NOT NULL,              -- 0 running 1 undoing 2 parked 3 completed 4 failed 5 undone 6 cancelled
  wake_at bigint,                       -- its first timer or deadline
  finished_at bigint,                   -- NULL = not terminal. A sub-workflow has none until its parent is removed
  data text NOT NULL                    -- JSON
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX workflow_keys ON $schema.workflows (name, key) WHERE key IS NOT NULL;
CREATE INDEX workflows_wake ON $schema.workflows (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflows_finished ON $schema.workflows (state, finished_at) WHERE finished_at IS NOT NULL;

-- The rest of a workflow, by kind and number: definitions of steps, states, results, timers, signals. src/workflow defines
-- the kinds. Of a packed workflow, kind 0 number 4 has the start (lengths, then the input, the wanted result and the
-- definitions), and the kinds 1 (definition), 2 (state) and 6 (live) have no rows for these steps.
CREATE TABLE $schema.workflow_rows (
  workflow bigint NOT NULL,
  kind smallint NOT NULL,
  number bigint NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The step that a job belongs to, until the workflow knows how the job ended.
CREATE TABLE $schema.workflow_jobs (
  job bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  step integer NOT NULL,
  undo boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- ==== schedules and triggers =====================================================================================

CREATE TABLE $schema.schedules (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE,
  version bigint NOT NULL,
  definition text NOT NULL,             -- JSON, as in PUT /v1/schedules/NAME
  queue text NOT NULL,                  -- of its jobs
  paused boolean NOT NULL,
  paused_reason text,
  next bigint NOT NULL,                 -- nominal time of the first undecided tick
  next_fire bigint NOT NULL,            -- the same with the jitter
  skip_before bigint NOT NULL,
  skip_reason text,
  remaining bigint,                     -- NULL = no limit
  fired bigint NOT NULL,
  last_fired bigint,
  last_job bigint NOT NULL,
  timeout_override bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  next_seq bigint NOT NULL              -- of its next row in the ledger
) WITH (fillfactor = 70);

-- The last version of each schedule that was removed: no version of a name is used twice.
CREATE TABLE $schema.removed_schedules (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
);

-- What was decided about each tick.
CREATE TABLE $schema.ledger (
  schedule bigint NOT NULL,
  seq bigint NOT NULL,
  version bigint NOT NULL,
  nominal bigint NOT NULL,
  until bigint,                         -- the last tick, if the row is about several
  count bigint NOT NULL,                -- 0 = too many to count
  source smallint NOT NULL,             -- 0 schedule 1 trigger 2 backfill 3 wake
  state smallint NOT NULL,              -- 0 fired 1 skipped
  past_due boolean NOT NULL,
  job bigint,
  reason text,
  note text,
  decided_at bigint NOT NULL,
  PRIMARY KEY (schedule, seq)
);
-- A tick never fires twice.
CREATE UNIQUE INDEX ledger_fired ON $schema.ledger (schedule, nominal, version) WHERE state = 0 AND source IN (0, 2);

-- Schedule links: the jobs of schedules that have not ended.
CREATE TABLE $schema.schedule_jobs (
  job bigint PRIMARY KEY,
  schedule bigint NOT NULL,
  waits boolean NOT NULL                -- for the end of the others
);
CREATE INDEX schedule_jobs_of ON $schema.schedule_jobs (schedule, job);
CREATE INDEX schedule_jobs_waiting ON $schema.schedule_jobs (schedule, job) WHERE waits;

-- One row for each trigger. Firing one needs a lock of its row, taken after the locks of sessions and jobs. A batch that
-- ends jobs locks the triggers that watch them last, by name, and fires them in its transaction.
CREATE TABLE $schema.triggers (
  name text COLLATE "C" PRIMARY KEY,
  definition text NOT NULL,             -- JSON
  state text NOT NULL,                  -- JSON
  secret text,                          -- the digest of a token, or the key of signatures
  ends smallint,                        -- which ends of jobs fire it, a sum of 1 completed, 2 cancelled, 4 dead; NULL = none
  of_queue text COLLATE "C"             -- the queue of those jobs; NULL = every queue
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX triggers_on_ends ON $schema.triggers (name) WHERE ends IS NOT NULL;

-- What fired, by number and by the id of the event.
CREATE TABLE $schema.trigger_events (
  name text COLLATE "C" NOT NULL,       -- of the trigger
  seq bigint NOT NULL,
  event text COLLATE "C",               -- NULL = it has no id
  fired_at bigint NOT NULL,
  made_at bigint,                       -- when the event happened; NULL = unknown
  job bigint NOT NULL,                  -- the job that it created; 0 = none
  reason text,                          -- why it created no job
  PRIMARY KEY (name, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX trigger_event_ids ON $schema.trigger_events (name, event) WHERE event IS NOT NULL;

-- ==== named locks ================================================================================================

CREATE TABLE $schema.named_leases (
  name text COLLATE "C" PRIMARY KEY,
  state smallint NOT NULL,              -- 0 held 1 released 2 expired
  token bigint NOT NULL,                -- of the present or the last holder
  ttl bigint NOT NULL,                  -- as it was last asked for
  kept bigint NOT NULL,                 -- the longest that this holder asked for
  ends bigint NOT NULL,                 -- held: when it expires; released: when it is forgotten
  since bigint NOT NULL,
  holder text NOT NULL,
  value text                            -- JSON
) WITH (fillfactor = 50);

-- ==== history ====================================================================================================

-- What the history counts: a kind of a queue; all kinds of a queue (kind ''); everything (both '').
-- At most 1,000 queues with 100 kinds each, and 5,000 kinds in all. The rest is counted as '~other'.
CREATE TABLE $schema.history_series (
  id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  last_at bigint NOT NULL,              -- hour of its newest row
  PRIMARY KEY (queue, kind)
) WITH (fillfactor = 50);

-- Counts per minute and per hour. Every node adds to the same rows, about once per second.
CREATE TABLE $schema.history (
  series bigint NOT NULL,
  span bigint NOT NULL,                 -- length: 60000000 or 3600000000
  at bigint NOT NULL,                   -- start, a multiple of span
  enqueued bigint NOT NULL,             -- jobs created
  started bigint NOT NULL,              -- attempts
  completed bigint NOT NULL,            -- jobs
  failed bigint NOT NULL,               -- attempts
  dead bigint NOT NULL,                 -- jobs
  cancelled bigint NOT NULL,            -- jobs
  wait bigint[] NOT NULL,               -- from run_at to the claim: {bucket,count,bucket,count…} (model/sketch.h)
  run bigint[] NOT NULL,                -- from the claim to the end of attempts that completed or failed
  PRIMARY KEY (series, span, at)
) WITH (fillfactor = 50);

-- ==== marks and saved views of the dashboard =====================================================================

CREATE TABLE $schema.marks (
  id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
  at bigint NOT NULL,
  text text NOT NULL,
  who text NOT NULL,
  source smallint NOT NULL              -- 0 manual 1 worker
);
CREATE INDEX marks_by_time ON $schema.marks (at, id);
CREATE UNIQUE INDEX marks_of_workers ON $schema.marks (text) WHERE source = 1;

CREATE TABLE $schema.saved_views (
  name text COLLATE "C" PRIMARY KEY,
  page text NOT NULL,
  query text NOT NULL,
  who text NOT NULL,
  updated_at bigint NOT NULL
);

-- ==== access =====================================================================================================

CREATE TABLE $schema.tokens (
  name text COLLATE "C" PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,         -- SHA-256 of the token; the token itself is not stored
  scopes text NOT NULL,                 -- separated by blanks
  rate integer NOT NULL,                -- requests per second; 0 = the server's default
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint
);

CREATE TABLE $schema.audit (
  seq bigint PRIMARY KEY,
  at bigint NOT NULL,
  who text NOT NULL,
  origin text NOT NULL,
  action text NOT NULL,
  object text NOT NULL,
  before text,                          -- JSON; NULL = there was nothing
  after text,
  hash bytea NOT NULL                   -- of the record and of the hash before it
);

-- 0: the newest record that was pruned; 1: the newest record.
CREATE TABLE $schema.audit_marks (
  id integer PRIMARY KEY CHECK (id IN (0, 1)),
  seq bigint NOT NULL,
  hash bytea NOT NULL
) WITH (fillfactor = 50);
INSERT INTO $schema.audit_marks (id, seq, hash)
  VALUES (0, 0, decode(repeat('00', 32), 'hex')), (1, 0, decode(repeat('00', 32), 'hex'));

CREATE FUNCTION $schema.audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    RAISE EXCEPTION 'audit records are never changed';
  ELSIF TG_OP = 'INSERT' THEN
    IF NEW.seq <= (SELECT seq FROM $schema.audit_marks WHERE id = 1) THEN
      RAISE EXCEPTION 'audit records are only appended';
    END IF;
    RETURN NEW;
  ELSIF OLD.seq > (SELECT seq FROM $schema.audit_marks WHERE id = 0) THEN
    RAISE EXCEPTION 'of audit records only the oldest are removed, when they are pruned';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER audit_append_only BEFORE INSERT OR UPDATE OR DELETE ON $schema.audit
  FOR EACH ROW EXECUTE FUNCTION $schema.audit_append_only();

CREATE FUNCTION $schema.audit_marks_advance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.id <> OLD.id OR NEW.seq < OLD.seq THEN
    RAISE EXCEPTION 'the marks of the audit only advance';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER audit_marks_advance BEFORE UPDATE OR DELETE ON $schema.audit_marks
  FOR EACH ROW EXECUTE FUNCTION $schema.audit_marks_advance();

-- ==== views for people ===========================================================================================

CREATE VIEW $schema.job AS
  SELECT j.id, q.name AS queue, k.name AS kind,
         (ARRAY['waiting', 'scheduled', 'available', 'running', 'completed', 'retryable', 'cancelled', 'dead'])[j.state + 1] AS state,
         j.priority, to_timestamp(j.run_at / 1e6) AS run_at, j.attempt, j.max_attempts, j.token, j.worker,
         to_timestamp(j.created_at / 1e6) AS created_at, to_timestamp(nullif(j.started_at, 0) / 1e6) AS started_at,
         to_timestamp(nullif(j.finished_at, 0) / 1e6) AS finished_at, j.args, j.tags, e.result, e.reason, e.description
  FROM $schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id = j.kind
       LEFT JOIN $schema.extras e ON e.id = j.id;

CREATE VIEW $schema.queue_counts AS
  SELECT q.name, q.paused, sum(t.enqueued) AS enqueued, sum(t.pruned) AS pruned, sum(t.expired) AS expired,
         sum(t.waiting) AS waiting, sum(t.scheduled) AS scheduled, sum(t.available) AS available,
         sum(t.running) AS running, sum(t.completed) AS completed, sum(t.retryable) AS retryable,
         sum(t.cancelled) AS cancelled, sum(t.dead) AS dead
  FROM $schema.queues q LEFT JOIN $schema.job_counts t ON t.queue = q.id GROUP BY q.name, q.paused;
