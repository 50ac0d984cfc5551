-- Schema 14 of the shared store: triggers on the ends of jobs. $schema is its name.
--
-- triggers.ends          which ends of jobs fire it: of 1 completed, 2 cancelled, 4 dead; NULL = none.
-- triggers.of_queue      of which queue; NULL = of every one.
-- trigger_events.reason  why an event made no job: its row has job 0; NULL = it made one.
-- jobs.trigger_depth     how many of these triggers fired one behind the other up to this job; NULL = none.
-- Whoever ends a job that they watch locks their rows behind everything else, by name, and fires them in its transaction. A program
-- that knows only schema 13 would not: the first one waits until no such node lives, and then lets none in (meta.compatible).

ALTER TABLE $schema.triggers ADD COLUMN ends smallint;
ALTER TABLE $schema.triggers ADD COLUMN of_queue text COLLATE "C";
CREATE INDEX triggers_on_ends ON $schema.triggers (name) WHERE ends IS NOT NULL;
ALTER TABLE $schema.trigger_events ADD COLUMN reason text;
ALTER TABLE $schema.jobs ADD COLUMN trigger_depth smallint;

-- As before; what follows a job has its trigger_depth.
CREATE OR REPLACE FUNCTION $schema.follow_completed(at bigint, ended $schema.jobs, result text, wake boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  told text;
  next record;
  job $schema.jobs;
BEGIN
  SELECT format('{"job":%s,"queue":%s,"kind":%s,"state":"completed","attempt":%s,"result":%s', ended.id, to_json(q.name),
                to_json(k.name), ended.attempt, coalesce(result, 'null'))
    INTO told FROM $schema.queues q, $schema.kinds k WHERE q.id = ended.queue AND k.id = ended.kind;
  IF cardinality(ended.tags) > 0 THEN
    -- Those that begin with 0x01 are kept as hexadecimal digits.
    SELECT format('%s,"tags":[%s]', told, string_agg(to_json(CASE WHEN ascii(t) = 1
             THEN convert_from(decode(substr(t, 2), 'hex'), 'UTF8') ELSE t END)::text, ',' ORDER BY n))
      INTO told FROM unnest(ended.tags) WITH ORDINALITY AS u(t, n);
  END IF;
  FOR next IN
    SELECT f->>'queue' AS queue, f->>'kind' AS kind, coalesce((f->>'priority')::integer, 5) AS priority,
           coalesce((f->'data')::text, 'null') AS data, f->>'session' AS session, n
      FROM json_array_elements(ended.follow_ups::json) WITH ORDINALITY AS u(f, n)
      WHERE f->'on' IS NULL OR (f->'on')::jsonb ? 'completed'
    UNION ALL SELECT ended.reply_to, 'reply', 5, 'null', ended.reply_session, 1000 WHERE ended.reply_to IS NOT NULL
    ORDER BY n
  LOOP
    job.state := 2; job.flags := 0; job.priority := next.priority; job.run_at := at; job.started_at := 0; job.expires_at := 0;
    job.queue := $schema.queue_of(next.queue); job.kind := $schema.kind_of(next.kind); job.session := nullif(next.session, '');
    job := $schema.enter_session(at, job);
    INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, lease_until, lease,
        claimed_at, run_at, started_at, finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget,
        correlation_id, headers, args, session, trigger_depth)
      VALUES (job.id, job.state, job.flags, job.priority, 0, 20, 1, 0, 0, 0, 0, at, 0, 0, 0, at, 900000000, 0, job.queue,
        job.kind, 20, coalesce(ended.correlation_id, ended.id::text), ended.headers, format('%s,"data":%s}', told, next.data),
        job.session, ended.trigger_depth);
    PERFORM $schema.enter_lines(job);
    PERFORM $schema.tally(at, job.queue, NULL, job.state);
    IF wake THEN PERFORM $schema.wake_for(at, job, next.queue); END IF;
  END LOOP;
END $$;

-- As before; what triggers watch is completed by nodes, which fire them.
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
  watched_by text;
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
  SELECT t.name INTO watched_by FROM $schema.triggers t, $schema.queues q WHERE t.ends IS NOT NULL AND t.ends & 1 <> 0 AND
    q.id = job.queue AND coalesce(t.of_queue, q.name) = q.name LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = format('job %s is of a queue that trigger %s watches: must be completed through a node, which fires it',
                       job.id, watched_by);
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
