-- Schema 11 of the shared store: results of steps of jobs, kept for their later attempts. $schema is its name.
--
-- memos       by job and name; the first result of a name stays. Who writes them has locked the job.
-- jobs.flags  bit 16384: it has memos. They go with it: where complete(), or a program that knows only schema 10, completes the job, when
--             it is pruned. What such a program prunes leaves them behind; the next node that begins alone removes them.

CREATE TABLE $schema.memos (
  job bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  result text NOT NULL,                 -- JSON
  PRIMARY KEY (job, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
