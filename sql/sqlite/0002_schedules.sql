-- Schema 2: leases by name, schedules and their ledger.
--
-- named_leases   who holds a name, and what holders left behind. The expiry is kept in memory and begins anew at start.
-- schedules      one row per schedule: its definition, and how far it is. The row of a tick, its job and this row change
--                in one transaction.
-- ledger         what became of every tick, the newest rows of each schedule.
-- schedule_jobs  the jobs of schedules that have not ended: what the overlap policies ask for.
-- Times are microseconds since 1970 in UTC; "never" is 9223372036854775807.

CREATE TABLE named_leases (
  name TEXT PRIMARY KEY,
  state INTEGER NOT NULL,               -- 0 held, 1 released, 2 expired
  holder TEXT NOT NULL,                 -- the present or last one
  token INTEGER NOT NULL,               -- its token
  ttl INTEGER NOT NULL,                 -- the longest that it asked for: so long it begins anew at start
  since INTEGER NOT NULL,
  value TEXT
) WITHOUT ROWID;

CREATE TABLE schedules (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never given again: the jobs of a removed one stay its own
  name TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL,
  definition TEXT NOT NULL,             -- JSON, as in PUT /v1/schedules/NAME
  paused INTEGER NOT NULL,
  paused_reason TEXT,
  next INTEGER NOT NULL,                -- nominal time of the first undecided tick
  next_fire INTEGER NOT NULL,           -- the same with the jitter
  skip_before INTEGER NOT NULL,
  skip_reason TEXT,
  remaining INTEGER,                    -- NULL = no limit
  fired INTEGER NOT NULL,
  last_fired INTEGER,
  last_job INTEGER NOT NULL,
  timeout_override INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  next_seq INTEGER NOT NULL             -- of its next row in the ledger
);

-- Names that had a schedule, and the last version: none is given twice.
CREATE TABLE removed_schedules (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE ledger (
  schedule INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  nominal INTEGER NOT NULL,
  until INTEGER,                        -- the last tick, where the row stands for several
  count INTEGER NOT NULL,               -- 0 = too many to count
  source INTEGER NOT NULL,              -- 0 schedule 1 trigger 2 backfill 3 wake
  state INTEGER NOT NULL,               -- 0 fired 1 skipped
  past_due INTEGER NOT NULL,
  job INTEGER,                          -- NULL = none
  reason TEXT,
  note TEXT,
  decided_at INTEGER NOT NULL,
  PRIMARY KEY (schedule, seq)
) WITHOUT ROWID;

-- A tick never fires twice.
CREATE UNIQUE INDEX ledger_fired ON ledger (schedule, nominal, version) WHERE state = 0 AND source IN (0, 2);

CREATE TABLE schedule_jobs (
  job INTEGER PRIMARY KEY,
  schedule INTEGER NOT NULL
);

ALTER TABLE bodies ADD COLUMN schedule INTEGER;  -- that made the job; NULL = none did
