-- Schema 10: results of steps of jobs, kept for their later attempts.
--
-- memos       by job and name; the first result of a name stays.
-- jobs.flags  bit 16384: it has memos, or had. Of a running job lease_notes may know it first: then the row of jobs has it when the
--             lease ends.

CREATE TABLE memos (
  job INTEGER NOT NULL,
  name TEXT NOT NULL,
  result TEXT NOT NULL                  -- JSON
);
CREATE UNIQUE INDEX memos_by_name ON memos (job, name);
