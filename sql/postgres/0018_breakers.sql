-- Schema 18 of the shared store: breakers, which the limits of queues name. $schema is its name.
--
-- breakers       settings: JSON. state: what it has seen; NULL = closed, and nothing has failed. Whoever claims from a queue that
--                names one locks the queue's row, then the breaker's, and reads what has ended since.
-- breaker_notes  ends of attempts that are still to be counted: those that failed (`failed`), and those that open it (`open_for`, in
--                microseconds). Written with the end, without a lock of the breaker; counted by whoever has that. Ends that
--                succeeded leave none: a claim looks at the jobs that it let begin.
-- A program that knows only schema 17 would claim from such queues as if they named none: the first queue that names one waits until
-- no such node lives, and then lets none in (meta.compatible).

CREATE TABLE $schema.breakers (
  name text COLLATE "C" PRIMARY KEY,
  settings text NOT NULL,
  state text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.breaker_notes (
  breaker text COLLATE "C" NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  job bigint NOT NULL,
  token bigint NOT NULL,
  began bigint NOT NULL,                -- the attempt, in microseconds since 1970
  at bigint NOT NULL,                   -- its end
  failed boolean NOT NULL,
  open_for bigint,
  PRIMARY KEY (breaker, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
