-- Schema 15 of the shared store: limits per key. $schema is its name.
--
-- jobs.limit_key  what the limits per key of its queue count it under; NULL = it is free of them. Bit 2048 of jobs.flags: it has one.
-- held_back       available jobs that stand here instead of in `ready`, because a claim found their key at its bound. Who claims
--                 from a queue with limits per key has locked its row, and moves them, with their jobs locked. Others do not know
--                 of this table: a row is void, and removed when it is met, if its job is not available any more, or stands
--                 elsewhere in the line by now (then it is in `ready`).
-- running_keys    jobs that a claim has given under limits per key. A row is void, and removed when its key is looked at, if its
--                 job does not run any more: ends touch nothing here.
-- A program that knows only schema 14 would claim beyond such limits: the first one waits until no such node lives, and then lets
-- none in (meta.compatible).

ALTER TABLE $schema.jobs ADD COLUMN limit_key text COLLATE "C";

CREATE TABLE $schema.held_back (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  kind integer NOT NULL,
  priority smallint NOT NULL,
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  expires_at bigint NOT NULL,           -- as in ready
  PRIMARY KEY (queue, key, kind, priority, run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX held_back_jobs ON $schema.held_back (id);
CREATE INDEX held_back_times ON $schema.held_back (queue, run_at);

CREATE TABLE $schema.running_keys (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (queue, key, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX running_keys_jobs ON $schema.running_keys (id);
