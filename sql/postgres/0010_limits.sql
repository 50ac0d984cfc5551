-- Schema 10 of the shared store: limits of queues. $schema is its name.
--
-- queues.limits    what was asked for, JSON; NULL = none. A claim that does not know of them gets nothing of such a queue; one
--                  that does locks the queue's row first, and then counts what runs (tallies).
-- queues.meter     what has begun under the rate; NULL = nothing.
-- queues.opens_at  closed by the rate until then, in microseconds since 1970; NULL = it is not.
-- A program that knows only schema 9 would claim beyond limits: the first limit waits until no such node lives, and then lets
-- none in (meta.compatible).

ALTER TABLE $schema.queues ADD COLUMN limits text;
ALTER TABLE $schema.queues ADD COLUMN meter text;
ALTER TABLE $schema.queues ADD COLUMN opens_at bigint;
