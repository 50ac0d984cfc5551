-- Schema 21 of the shared store: rates per key. $schema is its name.
--
-- They are asked for in queues.limits, so that whoever claims locks the queue's row, and then reads and writes these.
-- key_meters           what has begun of a limit key under the rate of its queue (RateMeter). A row goes some time after the key is
--                      as if nothing had begun of it.
-- .opens_at            closed by that rate until then; NULL = it is not.
-- .forgotten_at        from then on the row may go.
-- queues.keys_open_at  when the first key of it that is closed opens; NULL = none is, as far as anybody waits for it.
-- A program that knows only schema 20 would begin more than may: the first rate per key waits until no such node lives, and then
-- lets none in (meta.compatible).

ALTER TABLE $schema.queues ADD COLUMN keys_open_at bigint;

CREATE TABLE $schema.key_meters (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  opens_at bigint,
  forgotten_at bigint NOT NULL,
  PRIMARY KEY (queue, key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_meters_openings ON $schema.key_meters (queue, opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX key_meters_ends ON $schema.key_meters (queue, forgotten_at);
