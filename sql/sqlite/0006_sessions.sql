-- Schema 6: sessions, jobs of one key that run one at a time.
--
-- sessions        one row per session that has a living job, a holder or a state, or is stopped; it goes with the batch that leaves
--                 nothing of it. The column d of tallies 0 is the next id: none is given twice.
-- session_jobs    those that wait for the turn. The job that has it stands in sessions.turn alone.
-- session_states  apart, so that passing a turn does not rewrite 256 KiB.
-- jobs.flags      bit 64: of a session; 256: its death blocks the session; 512: its death parks it.
-- While a session is held, the job with the turn is in state 0 where it would be in 2.
-- Times are microseconds since 1970 in UTC.

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  jobs INTEGER NOT NULL,                -- living: that with the turn and those that wait
  turn INTEGER NOT NULL,                -- the job that has it; 0 = nobody
  stop INTEGER NOT NULL,                -- 0 none 1 blocked 2 parked
  stopped_by INTEGER NOT NULL,          -- the dead job
  worker TEXT,                          -- its holder
  token INTEGER NOT NULL,               -- of the holder; 0 = none
  lease INTEGER NOT NULL,               -- the longest that this holder asked for: so long it begins anew at start
  state_bytes INTEGER NOT NULL,         -- 0 = no row in session_states
  changed_at INTEGER NOT NULL,
  UNIQUE (queue, key)
);
CREATE INDEX sessions_held ON sessions (id) WHERE token <> 0;
CREATE INDEX sessions_forgotten ON sessions (changed_at) WHERE jobs = 0 AND token = 0 AND stop = 0;

CREATE TABLE session_jobs (
  session INTEGER NOT NULL,
  job INTEGER NOT NULL,
  PRIMARY KEY (session, job)
) WITHOUT ROWID;

CREATE TABLE session_states (
  session INTEGER PRIMARY KEY,
  state TEXT NOT NULL                   -- JSON
);

ALTER TABLE bodies ADD COLUMN session TEXT;        -- its key; NULL = none
ALTER TABLE bodies ADD COLUMN reply_session TEXT;  -- of the queue reply_to
