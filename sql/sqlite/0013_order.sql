-- Schema 13: the order in which a queue gives its jobs: ageing, and fair keys. Both are asked for in queues.limits.
--
-- queues.turns_at  the virtual time of a queue with fair keys (KeyTurns); NULL = 0.
-- turns            keys that have been served up to a time; those that are not ahead of the queue's may be missing. The key '' is
--                  that of the jobs without one.
-- A program that knows only schema 12 would give such jobs in another order: it does not open the store.

ALTER TABLE queues ADD COLUMN turns_at INTEGER;
CREATE TABLE turns (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;
