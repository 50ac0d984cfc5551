-- Schema 11 of the shared store: results of steps of jobs, kept for their later attempts. $schema is its name.
--
-- memos       by job and name; the first result of a name stays. Who writes them has locked the job.
-- jobs.flags  bit 16384: it has memos.

CREATE TABLE $schema.memos (
  job bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  result text NOT NULL,                 -- JSON
  PRIMARY KEY (job, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- As before; with other args a job has no memos.
CREATE OR REPLACE FUNCTION $schema.holder_of_key(at bigint, wanted $schema.jobs, on_conflict text) RETURNS $schema.jobs
LANGUAGE plpgsql AS $$
DECLARE
  held $schema.uniques;
  old $schema.jobs;
  new $schema.jobs;
  of_old $schema.sessions;
BEGIN
  INSERT INTO $schema.uniques (queue, key, id, until) VALUES (wanted.queue, wanted.unique_key, 0, 0)
    ON CONFLICT (queue, key) DO NOTHING;
  SELECT * INTO held FROM $schema.uniques u WHERE u.queue = wanted.queue AND u.key = wanted.unique_key FOR UPDATE;
  IF held.id = 0 THEN RETURN NULL; END IF;
  SELECT * INTO old FROM $schema.jobs j WHERE j.id = held.id FOR UPDATE;
  IF NOT FOUND OR (old.state IN (4, 6, 7) AND at >= held.until) THEN RETURN NULL; END IF;
  IF old.state IN (3, 4, 6, 7) OR on_conflict = 'keep' THEN RETURN old; END IF;
  new := old;
  IF on_conflict = 'replace' THEN
    new.kind := wanted.kind; new.priority := wanted.priority; new.budget := wanted.max_attempts;
    new.max_attempts := greatest(wanted.max_attempts, old.attempt + 1);
    new.timeout := wanted.timeout; new.expires_at := wanted.expires_at;
    new.correlation_id := wanted.correlation_id; new.reply_to := wanted.reply_to;
    new.reply_session := wanted.reply_session;
    new.tags := wanted.tags; new.headers := wanted.headers; new.args := wanted.args; new.follow_ups := NULL;
    IF old.flags & 16384 <> 0 THEN DELETE FROM $schema.memos m WHERE m.job = old.id; END IF;
    new.flags := (old.flags & ~16544) | CASE WHEN wanted.reply_to IS NULL THEN 0 ELSE 32 END
                 | CASE WHEN wanted.reply_session IS NULL THEN 0 ELSE 128 END;
  END IF;
  new.state := wanted.state;
  IF old.session IS NOT NULL THEN
    -- It keeps its place, and the turn if it has it.
    of_old := $schema.lock_session(old.queue, old.session);
    IF of_old.turn <> old.id OR (new.state = 2 AND of_old.token <> 0) THEN new.state := 0; END IF;
  END IF;
  new.run_at := wanted.run_at; new.version := old.version + 1;
  new.flags := new.flags & ~16;
  UPDATE $schema.jobs j SET kind = new.kind, priority = new.priority, budget = new.budget, max_attempts = new.max_attempts,
      timeout = new.timeout, expires_at = new.expires_at, correlation_id = new.correlation_id, reply_to = new.reply_to,
      reply_session = new.reply_session,
      tags = new.tags, headers = new.headers, args = new.args, follow_ups = new.follow_ups, state = new.state, run_at = new.run_at,
      version = new.version, flags = new.flags
    WHERE j.id = new.id;
  PERFORM $schema.leave_lines(old);
  PERFORM $schema.enter_lines(new);
  PERFORM $schema.tally(at, new.queue, old.state, new.state);
  RETURN new;
END $$;

-- As before; a completed job has no memos.
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
      flags = (j.flags & ~16400) | CASE WHEN result_text IS NULL THEN 0 ELSE 1 END
    WHERE j.id = job.id;
  IF job.flags & 16384 <> 0 THEN DELETE FROM $schema.memos m WHERE m.job = job.id; END IF;
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
