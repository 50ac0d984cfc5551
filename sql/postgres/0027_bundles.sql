-- Schema 27: plain jobs that were enqueued together stand in the line as one entry.
--
-- bundles  like `ready`, a row for up to a hundred jobs. A job of a bundle is available as long as its row is as it was
--          enqueued: state 2, version 1. Whatever changes a job raises its version, and so takes it out of its bundle without
--          looking for it; ids of such jobs stay behind and mean nothing. What comes back to the line comes to `ready`.
CREATE TABLE $schema.bundles (
  queue integer NOT NULL,
  priority smallint NOT NULL,
  kind integer NOT NULL,
  run_at bigint NOT NULL,
  first bigint NOT NULL,                -- the smallest id it had when it was made
  ids bigint[] NOT NULL,
  PRIMARY KEY (queue, priority, run_at, first)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Ids hardly compress, and trying costs more than the rest of such a row.
ALTER TABLE $schema.bundles ALTER COLUMN ids SET STORAGE EXTERNAL;
