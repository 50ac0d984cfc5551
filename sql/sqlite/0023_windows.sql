-- Schema 23: a unique key outlives its job until its window is over.
--
-- uniques.ended  of a key whose job has been pruned: the state in which that ended; NULL = its job is there. Such a row goes when
--                `until` has come.
-- A program that knows only schema 22 would take the key for free: it does not open the store.

ALTER TABLE uniques ADD COLUMN ended INTEGER;
CREATE INDEX uniques_ended ON uniques (until) WHERE ended IS NOT NULL;
