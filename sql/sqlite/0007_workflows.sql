-- Schema 7: workflows, steps that are finished or undone as a whole.
--
-- workflows       one row each; what it is found by, and the rest as JSON. The column e of tallies 0 is the next id.
-- workflow_rows   what belongs to one, by kind (WorkflowRow) and number: definitions of steps, their states, results, timers, signals.
-- workflow_jobs   whose a step's job is, until it has ended.
-- jobs.flags      bit 4096: of a step; 8192: an attempt of it ended without its worker's word, or it was cancelled while it ran.
-- Times are microseconds since 1970 in UTC.

CREATE TABLE workflows (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT,                             -- NULL = none
  state INTEGER NOT NULL,               -- 0 running 1 undoing 2 parked 3 completed 4 failed 5 undone 6 cancelled
  wake_at INTEGER,                      -- of its first timer or deadline; NULL = none
  finished_at INTEGER,                  -- NULL = not terminal
  data TEXT NOT NULL                    -- JSON
);
CREATE UNIQUE INDEX workflow_keys ON workflows (name, key) WHERE key IS NOT NULL;
CREATE INDEX workflows_wake ON workflows (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflows_finished ON workflows (state, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE workflow_rows (
  workflow INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  number INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITHOUT ROWID;

CREATE TABLE workflow_jobs (
  job INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  step INTEGER NOT NULL,
  undo INTEGER NOT NULL
);
