-- Schema 7 of the shared store: workflows, steps that are finished or undone as a whole. $schema is its name.
--
-- workflows      one row each: what it is found by, and the rest as JSON. Whoever changes anything of a workflow locks its row
--                first, behind the jobs that ended.
-- workflow_rows  what belongs to one, by kind and number: definitions of steps, their states, results, timers, signals.
-- workflow_jobs  whose a step's job is, until it has ended.
-- jobs.flags     bit 4096: of a step; 8192: an attempt of it ended without its worker's word, or it was cancelled while it ran.
-- nodes.schema   the newest that the node knows. A program that knows only schema 6 would end the job of a step and begin nothing
--                behind it: the first workflow waits until no such node lives, and then lets none in (meta.compatible).

CREATE SEQUENCE $schema.workflow_ids;

CREATE TABLE $schema.workflows (
  id bigint PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  key text COLLATE "C",                 -- NULL = none
  state smallint NOT NULL,              -- 0 running 1 undoing 2 parked 3 completed 4 failed 5 undone 6 cancelled
  wake_at bigint,                       -- of its first timer or deadline; NULL = none
  finished_at bigint,                   -- NULL = not terminal
  data text NOT NULL                    -- JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX workflow_keys ON $schema.workflows (name, key) WHERE key IS NOT NULL;
CREATE INDEX workflows_wake ON $schema.workflows (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflows_finished ON $schema.workflows (state, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE $schema.workflow_rows (
  workflow bigint NOT NULL,
  kind smallint NOT NULL,
  number bigint NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.workflow_jobs (
  job bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  step integer NOT NULL,
  undo boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE $schema.nodes ADD COLUMN schema integer NOT NULL DEFAULT 6;

-- The job is done when the caller's transaction commits, if `token` is that of its present attempt: 'ok', also if it was
-- done under that token before; 'stale', and the transaction should be rolled back: somebody else has it, or it was stopped;
-- 'not_found'. `session_state` is that of its session from then on, JSON; '' = none, NULL = as it is.
-- The job of a step is not completed here: only nodes begin what is behind it.
CREATE OR REPLACE FUNCTION $schema.complete(id bigint, token bigint, result anycompatible DEFAULT NULL::text,
                                            wake boolean DEFAULT true, session_state text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  at CONSTANT bigint := $schema.now_us();
  result_text text;
  job $schema.jobs;
  keep bigint;
  of_job $schema.sessions;
BEGIN
  wake := coalesce(wake, true);
  result_text := $schema.json_text('result', result);
  PERFORM $schema.check_size('session_state', session_state, 262144);
  IF session_state <> '' THEN PERFORM $schema.check_json('session_state', session_state); END IF;
  -- The session before the job: in the order in which nodes lock them.
  SELECT s.* INTO of_job FROM $schema.jobs j JOIN $schema.sessions s ON s.queue = j.queue AND s.key = j.session
    WHERE j.id = complete.id FOR NO KEY UPDATE OF s;
  SELECT * INTO job FROM $schema.jobs j WHERE j.id = complete.id FOR UPDATE;
  IF NOT FOUND THEN RETURN 'not_found'; END IF;
  IF job.token IS DISTINCT FROM token OR job.state <> 3 THEN
    RETURN CASE WHEN job.token = token AND job.state = 4 THEN 'ok' ELSE 'stale' END;
  END IF;
  IF job.flags & 4096 <> 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = format('job %s is a step of a workflow: must be completed through a node, which begins what is behind it',
                       job.id);
  END IF;
  IF job.schedule <> 0 AND current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state',
      MESSAGE = format('job %s is of a schedule: must be completed in a transaction that is READ COMMITTED, not %s', job.id,
                       upper(current_setting('transaction_isolation')));
  END IF;
  SELECT coalesce(q.retention_completed, (SELECT value FROM $schema.settings WHERE name = 'retention_completed'))
    INTO keep FROM $schema.queues q WHERE q.id = job.queue;
  UPDATE $schema.jobs j SET state = 4, version = j.version + 1, finished_at = at, worker = NULL, lease_until = 0,
      flags = (j.flags & ~16) | CASE WHEN result_text IS NULL THEN 0 ELSE 1 END
    WHERE j.id = job.id;
  IF result_text IS NOT NULL THEN
    INSERT INTO $schema.extras AS e (id, result) VALUES (job.id, result_text)
      ON CONFLICT ON CONSTRAINT extras_pkey DO UPDATE SET result = excluded.result;
  END IF;
  INSERT INTO $schema.finished (prune_at, seq, at, ids)
    VALUES (at + keep, nextval('$schema.row_numbers'), at, ARRAY[job.id]);
  PERFORM $schema.tally(at, job.queue, 3, 4);
  IF of_job.id IS NOT NULL AND job.session IS NOT NULL THEN
    of_job.turn := 0; of_job.jobs := of_job.jobs - 1;
    IF session_state IS NOT NULL THEN of_job.state := nullif(btrim(session_state, E' \t\r\n'), ''); END IF;
    PERFORM $schema.settle_session(at, of_job, wake);
  END IF;
  IF job.flags & 32 <> 0 THEN PERFORM $schema.follow_completed(at, job, result_text, wake); END IF;
  IF job.schedule <> 0 THEN PERFORM $schema.end_tie(at, job.id, job.schedule, wake); END IF;
  IF wake THEN PERFORM pg_notify('$schema', format('{"ended":[%s]}', job.id)); END IF;
  RETURN 'ok';
END $$;
