-- Schema 23 of the shared store: costs of kinds. $schema is its name.
--
-- They are asked for in queues.limits, so that whoever claims locks the queue's row.
-- running_keys     under the key '', which no job has: jobs of kinds with a cost that a claim has given. Void as the others are.
-- queues.opens_at  with costs: when its rate lets a job of the next cost begin which it does not let now; key_meters.opens_at the same.
-- A program that knows only schema 22 would begin more than may: the first cost waits until no such node lives, and then lets none
-- in (meta.compatible).

COMMENT ON COLUMN $schema.running_keys.key IS 'a limit_key; or '''', of a job whose kind has a cost';
