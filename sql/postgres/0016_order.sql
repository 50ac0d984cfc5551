-- Schema 16 of the shared store: the order in which a queue gives its jobs: ageing, and fair keys. $schema is its name.
--
-- Both are asked for in queues.limits, so that whoever claims locks the queue's row.
-- queues.turns_at  the virtual time of a queue with fair keys (KeyTurns); NULL = 0.
-- turns            keys that have been served up to a time; those that are not ahead of the queue's may be missing. The key '' is
--                  that of the jobs without one.
-- held_back        of a queue with fair keys all that claims have seen of the line and not given; key '' too.
-- A program that knows only schema 15 would give such jobs in another order: the first such setting waits until no such node
-- lives, and then lets none in (meta.compatible).

ALTER TABLE $schema.queues ADD COLUMN turns_at bigint;

CREATE TABLE $schema.turns (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
