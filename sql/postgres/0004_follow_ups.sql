-- Schema 4 of the shared store: jobs that are made when another one ends. $schema is its name.
--
-- jobs.follow_ups  JSON, as the member "then" of POST /v1/jobs; NULL = none. Bit 32 of jobs.flags says that there are any, or a
--                  reply_to: that something is made when the job ends.
-- A program that knows only schema 3 ends a job without what it is to be followed by.

ALTER TABLE $schema.jobs ADD COLUMN follow_ups text;

-- What the completed job `ended` is followed by, available at once.
CREATE FUNCTION $schema.follow_completed(at bigint, ended $schema.jobs, result text, wake boolean) RETURNS void
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
           coalesce((f->'data')::text, 'null') AS data, n
      FROM json_array_elements(ended.follow_ups::json) WITH ORDINALITY AS u(f, n)
      WHERE f->'on' IS NULL OR (f->'on')::jsonb ? 'completed'
    UNION ALL SELECT ended.reply_to, 'reply', 5, 'null', 1000 WHERE ended.reply_to IS NOT NULL
    ORDER BY n
  LOOP
    job.state := 2; job.priority := next.priority; job.run_at := at; job.started_at := 0; job.expires_at := 0;
    job.queue := $schema.queue_of(next.queue); job.kind := $schema.kind_of(next.kind);
    INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, lease_until, lease,
        claimed_at, run_at, started_at, finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget,
        correlation_id, headers, args)
      VALUES (nextval('$schema.job_ids'), 2, 0, job.priority, 0, 20, 1, 0, 0, 0, 0, at, 0, 0, 0, at, 900000000, 0, job.queue,
        job.kind, 20, coalesce(ended.correlation_id, ended.id::text), ended.headers, format('%s,"data":%s}', told, next.data))
      RETURNING id INTO job.id;
    PERFORM $schema.enter_lines(job);
    PERFORM $schema.tally(at, job.queue, NULL, 2);
    IF wake THEN PERFORM $schema.wake_for(at, job, next.queue); END IF;
  END LOOP;
END $$;

REVOKE ALL ON FUNCTION $schema.follow_completed FROM PUBLIC;

-- As before, but for reply_to and follow_ups.

CREATE OR REPLACE FUNCTION $schema.holder_of_key(at bigint, wanted $schema.jobs, on_conflict text) RETURNS $schema.jobs
LANGUAGE plpgsql AS $$
DECLARE
  held $schema.uniques;
  old $schema.jobs;
  new $schema.jobs;
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
    new.tags := wanted.tags; new.headers := wanted.headers; new.args := wanted.args; new.follow_ups := NULL;
    new.flags := (old.flags & ~32) | CASE WHEN wanted.reply_to IS NULL THEN 0 ELSE 32 END;
  END IF;
  new.state := wanted.state; new.run_at := wanted.run_at; new.version := old.version + 1;
  new.flags := new.flags & ~16;
  UPDATE $schema.jobs j SET kind = new.kind, priority = new.priority, budget = new.budget, max_attempts = new.max_attempts,
      timeout = new.timeout, expires_at = new.expires_at, correlation_id = new.correlation_id, reply_to = new.reply_to,
      tags = new.tags, headers = new.headers, args = new.args, follow_ups = new.follow_ups, state = new.state, run_at = new.run_at,
      version = new.version, flags = new.flags
    WHERE j.id = new.id;
  PERFORM $schema.leave_lines(old);
  PERFORM $schema.enter_lines(new);
  PERFORM $schema.tally(at, new.queue, old.state, new.state);
  RETURN new;
END $$;

-- Queues a job when the caller's transaction commits; returns its id, or that of the job with the same unique key. NULL is
-- as if not given, but for `timeout`, where it means none. Without `wake` no node is told: one finds the job within 5 seconds.
CREATE OR REPLACE FUNCTION $schema.enqueue(
  queue text, kind text, args anycompatible DEFAULT '{}'::text, priority integer DEFAULT 5, run_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL, max_attempts integer DEFAULT 20, unique_key text DEFAULT NULL, unique_for interval DEFAULT NULL,
  on_conflict text DEFAULT 'keep', timeout interval DEFAULT '15 min', expires_in interval DEFAULT NULL,
  tags text[] DEFAULT NULL, headers jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, reply_to text DEFAULT NULL,
  wake boolean DEFAULT true
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  at CONSTANT bigint := $schema.now_us();
  never CONSTANT bigint := 9223372036854775807;
  window_us bigint;
  start numeric;
  job $schema.jobs;
  holder $schema.jobs;
BEGIN
  wake := coalesce(wake, true);
  PERFORM $schema.check_name('queue', queue);
  PERFORM $schema.check_name('kind', kind);
  job.args := coalesce($schema.json_text('args', args), '{}');
  IF headers IS NOT NULL AND headers <> 'null' THEN
    IF jsonb_typeof(headers) <> 'object' OR
       jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")', silent => true) THEN
      PERFORM $schema.refuse('headers', format('headers %s: must be an object whose values are strings',
                                               left(headers::text, 64)));
    END IF;
    job.headers := headers::text;
    PERFORM $schema.check_size('headers', job.headers, 16384);
  END IF;
  PERFORM $schema.check_size('correlation_id', correlation_id, 512);
  IF reply_to <> '' THEN PERFORM $schema.check_name('reply_to', reply_to); END IF;
  job.priority := CASE WHEN coalesce(priority, 5) BETWEEN 0 AND 9 THEN coalesce(priority, 5) END;
  IF job.priority IS NULL THEN
    PERFORM $schema.refuse('priority', format('priority %s: must be 0 to 9', priority));
  END IF;
  job.max_attempts := coalesce(max_attempts, 20);
  IF job.max_attempts NOT BETWEEN 1 AND 1000 THEN
    PERFORM $schema.refuse('max_attempts', format('max_attempts %s: must be 1 to 1000', max_attempts));
  END IF;
  IF run_at IS NOT NULL AND delay IS NOT NULL THEN
    PERFORM $schema.refuse('delay', format('delay "%s" and run_at "%s": give at most one of them', delay, run_at));
  END IF;
  start := coalesce(extract(epoch FROM run_at) * 1000000, at + $schema.duration_us('delay', delay, true), at);
  IF start NOT BETWEEN 0 AND 253402300799999999 THEN
    PERFORM $schema.refuse('run_at', format('run_at "%s": must be in the years 1970 to 9999', run_at));
  END IF;
  job.run_at := start;
  job.timeout := coalesce($schema.duration_us('timeout', timeout, false), never);
  job.expires_at := coalesce(at + $schema.duration_us('expires_in', expires_in, false), 0);
  IF cardinality(tags) > 16 THEN
    PERFORM $schema.refuse('tags', format('tags has %s entries: must be at most 16', cardinality(tags)));
  END IF;
  IF cardinality(tags) > 0 THEN
    SELECT array_agg($schema.kept(t) ORDER BY n) INTO job.tags FROM unnest(tags) WITH ORDINALITY AS u(t, n)
      WHERE octet_length(t) BETWEEN 1 AND 64 AND position(chr(31) IN t) = 0;
    IF cardinality(job.tags) IS DISTINCT FROM cardinality(tags) THEN
      PERFORM $schema.refuse('tags', format('tag "%s": must be 1 to 64 bytes of text', left(t, 80))) FROM unnest(tags) AS t
        WHERE octet_length(t) BETWEEN 1 AND 64 IS NOT TRUE OR position(chr(31) IN t) <> 0;
    END IF;
  END IF;
  IF on_conflict NOT IN ('keep', 'replace', 'postpone') THEN
    PERFORM $schema.refuse('on_conflict', format('on_conflict "%s": must be "keep", "replace" or "postpone"',
                                                 left(on_conflict, 64)));
  END IF;
  IF unique_key = '' OR (unique_key IS NULL AND unique_for IS NOT NULL) THEN
    PERFORM $schema.refuse('unique_key', 'unique_key "": must not be empty');
  END IF;
  PERFORM $schema.check_size('unique_key', unique_key, 512);
  window_us := $schema.duration_us('unique_for', unique_for, true);

  job.state := CASE WHEN job.run_at > at THEN 1 ELSE 2 END;
  job.queue := $schema.queue_of(queue);
  job.kind := $schema.kind_of(kind);
  job.unique_key := $schema.kept(unique_key);
  job.correlation_id := $schema.kept(correlation_id);
  job.reply_to := nullif(reply_to, '');
  job.started_at := 0;
  IF unique_key IS NOT NULL THEN
    holder := $schema.holder_of_key(at, job, coalesce(on_conflict, 'keep'));
    IF holder.id IS NOT NULL THEN
      IF wake AND on_conflict <> 'keep' AND holder.state IN (1, 2) THEN PERFORM $schema.wake_for(at, holder, queue); END IF;
      RETURN holder.id;
    END IF;
  END IF;
  INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, lease_until, lease, claimed_at,
      run_at, started_at, finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget, unique_key,
      correlation_id, reply_to, tags, headers, args)
    VALUES (nextval('$schema.job_ids'), job.state,
      CASE WHEN unique_key IS NULL THEN 0 ELSE 4 END | CASE WHEN job.reply_to IS NULL THEN 0 ELSE 32 END, job.priority, 0,
      job.max_attempts, 1, 0, 0, 0, 0, job.run_at, 0, 0, job.expires_at, at, job.timeout, 0, job.queue, job.kind,
      job.max_attempts, job.unique_key, job.correlation_id, job.reply_to, job.tags, job.headers, job.args)
    RETURNING id INTO job.id;
  PERFORM $schema.enter_lines(job);
  PERFORM $schema.tally(at, job.queue, NULL, job.state);
  IF unique_key IS NOT NULL THEN
    -- Without a window the key is free as soon as the job ends, wherever the clock is set to.
    UPDATE $schema.uniques u SET id = job.id, until = CASE WHEN window_us > 0 THEN at + window_us ELSE 0 END
      WHERE u.queue = job.queue AND u.key = job.unique_key;
  END IF;
  IF wake THEN PERFORM $schema.wake_for(at, job, queue); END IF;
  RETURN job.id;
END $$;

-- The job is done when the caller's transaction commits, if `token` is that of its present attempt: 'ok', also if it was
-- done under that token before; 'stale', and the transaction should be rolled back: somebody else has it, or it was stopped;
-- 'not_found'.
CREATE OR REPLACE FUNCTION $schema.complete(id bigint, token bigint, result anycompatible DEFAULT NULL::text, wake boolean DEFAULT true)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  at CONSTANT bigint := $schema.now_us();
  result_text text;
  job $schema.jobs;
  keep bigint;
BEGIN
  wake := coalesce(wake, true);
  result_text := $schema.json_text('result', result);
  SELECT * INTO job FROM $schema.jobs j WHERE j.id = complete.id FOR UPDATE;
  IF NOT FOUND THEN RETURN 'not_found'; END IF;
  IF job.token IS DISTINCT FROM token OR job.state <> 3 THEN
    RETURN CASE WHEN job.token = token AND job.state = 4 THEN 'ok' ELSE 'stale' END;
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
  IF job.flags & 32 <> 0 THEN PERFORM $schema.follow_completed(at, job, result_text, wake); END IF;
  IF job.schedule <> 0 THEN PERFORM $schema.end_tie(at, job.id, job.schedule, wake); END IF;
  IF wake THEN PERFORM pg_notify('$schema', format('{"ended":[%s]}', job.id)); END IF;
  RETURN 'ok';
END $$;
