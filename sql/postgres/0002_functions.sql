-- Schema 2 of the shared store: jobs in a transaction of the caller's own. $schema is its name.
--
-- enqueue() and complete() do what a node's batch would, with the same rows and the same refusals, for a role that has no
-- other right. They run as the owner of the tables: so they trust nothing of the session, neither its search_path nor
-- casts that somebody made; whoever may call them is granted that (nobody is, at first). Parameters are named as in the
-- API. What is refused has SQLSTATE 22023, and the field in the error's column name.

-- What functions must know of the nodes' options; each node writes it when it opens the store.
CREATE TABLE $schema.settings (
  name text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);
INSERT INTO $schema.settings (name, value) VALUES ('retention_completed', 86400000000);

CREATE FUNCTION $schema.refuse(field text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message, COLUMN = field;
END $$;

CREATE FUNCTION $schema.check_name(field text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF name IS NULL OR name COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 128 letters, digits or . _ : / -, beginning with a letter or '
                                         'a digit', field, left(name, 64)));
  END IF;
END $$;

CREATE FUNCTION $schema.check_size(field text, value text, most integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(value) > most THEN
    PERFORM $schema.refuse(field, format('%s has %s bytes: must be at most %s', field, octet_length(value), most));
  END IF;
END $$;

-- JSON that nodes can read: whole surrogate pairs, at most 64 levels.
CREATE FUNCTION $schema.check_json(field text, value text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  levels CONSTANT integer := 64;
  brackets text;
BEGIN
  BEGIN
    PERFORM value::json;
    -- jsonb reads escapes, and knows no zero.
    IF value ~* '\\ud[89a-f]' THEN PERFORM replace(value, '\u0000', '\u0001')::jsonb; END IF;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be a JSON value: %s', field, left(value, 64), SQLERRM));
  END;
  IF length(value) - length(translate(value, '[{', '')) <= levels THEN RETURN; END IF;
  -- Nothing but the brackets, of which each turn takes the innermost away.
  brackets := translate(regexp_replace(regexp_replace(value, '"(?:\\.|[^"\\])*"', '', 'g'), '[^][{}]', '', 'g'), '{}', '[]');
  FOR level IN 1 .. levels LOOP
    EXIT WHEN brackets = '';
    brackets := replace(brackets, '[]', '');
  END LOOP;
  IF brackets <> '' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must have at most %s levels', field, left(value, 64), levels));
  END IF;
END $$;

-- An argument of a function as JSON text. Not by a cast: whoever calls may have made the type and its casts, and they would
-- run as the owner.
CREATE FUNCTION $schema.json_text(field text, value anyelement) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  kind CONSTANT regtype := pg_typeof(value);
  given CONSTANT text := btrim(format('%s', value), E' \t\r\n');
BEGIN
  IF kind NOT IN ('text'::regtype, 'varchar'::regtype, 'json'::regtype, 'jsonb'::regtype) THEN
    PERFORM $schema.refuse(field, format('%s of type %s: must be text, json or jsonb', field, kind));
  END IF;
  IF value IS NULL THEN RETURN NULL; END IF;
  PERFORM $schema.check_size(field, given, 1048576);
  PERFORM $schema.check_json(field, given);
  RETURN given;
END $$;

-- Microseconds; a month has 30 days, a year 365.25. NULL stays NULL.
CREATE FUNCTION $schema.duration_us(field text, value interval, zero boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  us CONSTANT numeric := extract(epoch FROM value) * 1000000;
BEGIN
  IF us < 0 OR (us = 0 AND NOT zero) THEN
    PERFORM $schema.refuse(field, format('%s "%s": must %s', field, value,
                                         CASE WHEN zero THEN 'not be negative' ELSE 'be more than 0' END));
  ELSIF us > 3153600000000000 THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be at most 36500 days', field, value));
  END IF;
  RETURN us::bigint;
END $$;

-- As programs write it: '' is NULL; what begins with 0x01 says that hexadecimal digits follow, and so is written with them.
CREATE FUNCTION $schema.kept(value text) RETURNS text LANGUAGE sql IMMUTABLE
  AS $$ SELECT CASE WHEN ascii(value) = 1 THEN chr(1) || encode(convert_to(value, 'UTF8'), 'hex') ELSE nullif(value, '') END $$;

-- Whoever gives a queue or a kind its first job makes it. Until that transaction ends, others that do the same wait.
CREATE FUNCTION $schema.queue_of(wanted text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  known integer;
BEGIN
  LOOP
    SELECT q.id INTO known FROM $schema.queues q WHERE q.name = wanted;
    IF known IS NOT NULL THEN RETURN known; END IF;
    INSERT INTO $schema.queues (name) VALUES (wanted) ON CONFLICT (name) DO NOTHING RETURNING id INTO known;
    IF known IS NOT NULL THEN RETURN known; END IF;
  END LOOP;
END $$;

CREATE FUNCTION $schema.kind_of(wanted text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  known integer;
BEGIN
  LOOP
    SELECT k.id INTO known FROM $schema.kinds k WHERE k.name = wanted;
    IF known IS NOT NULL THEN RETURN known; END IF;
    INSERT INTO $schema.kinds (name) VALUES (wanted) ON CONFLICT (name) DO NOTHING RETURNING id INTO known;
    IF known IS NOT NULL THEN RETURN known; END IF;
  END LOOP;
END $$;

-- The counters when a job of `queue` goes from one state to another; from NULL: it is new.
CREATE FUNCTION $schema.tally(at bigint, queue integer, before integer, after integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  was CONSTANT integer := coalesce(before, -1);
BEGIN
  INSERT INTO $schema.tallies (node, batch, at, queue, enqueued, waiting, scheduled, available, running, completed, retryable)
    VALUES (0, 0, at, queue, (was = -1)::integer, (after = 0)::integer - (was = 0)::integer,
      (after = 1)::integer - (was = 1)::integer, (after = 2)::integer - (was = 2)::integer,
      (after = 3)::integer - (was = 3)::integer, (after = 4)::integer - (was = 4)::integer,
      (after = 5)::integer - (was = 5)::integer);
END $$;

-- The rows that say when a job begins, as its own row has it.
CREATE FUNCTION $schema.leave_lines(job $schema.jobs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF job.state = 2 THEN
    DELETE FROM $schema.ready r
      WHERE r.queue = job.queue AND r.priority = job.priority AND r.run_at = job.run_at AND r.id = job.id;
  ELSIF job.state IN (1, 5) THEN
    DELETE FROM $schema.due d WHERE d.run_at = job.run_at AND d.id = job.id;
  END IF;
  IF job.expires_at <> 0 AND job.started_at = 0 THEN
    DELETE FROM $schema.expiring e WHERE e.expires_at = job.expires_at AND e.id = job.id;
  END IF;
END $$;

CREATE FUNCTION $schema.enter_lines(job $schema.jobs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  expires_at CONSTANT bigint := CASE WHEN job.started_at = 0 THEN job.expires_at ELSE 0 END;
BEGIN
  IF job.state = 2 THEN
    INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at)
      VALUES (job.queue, job.priority, job.kind, job.run_at, job.id, expires_at);
  ELSE
    INSERT INTO $schema.due (run_at, id) VALUES (job.run_at, job.id);
  END IF;
  IF expires_at <> 0 THEN
    INSERT INTO $schema.expiring (expires_at, id) VALUES (expires_at, job.id) ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- At the commit. Nobody need be told of what is due when nodes will have looked by themselves: they do so every 5 seconds.
CREATE FUNCTION $schema.wake_for(at bigint, job $schema.jobs, queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF job.state = 2 THEN
    PERFORM pg_notify('$schema', format('{"queues":["%s"]}', queue));
  ELSIF job.run_at < at + 10000000 THEN
    PERFORM pg_notify('$schema', format('{"next_due":"%s"}', to_char(to_timestamp(job.run_at / 1e6) AT TIME ZONE 'UTC',
                                                                    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
  END IF;
END $$;

-- The job that holds a unique key in `queue` and has not let go of it, changed as `wanted` says; NULL = it is free, and this
-- transaction has its row.
CREATE FUNCTION $schema.holder_of_key(at bigint, wanted $schema.jobs, on_conflict text) RETURNS $schema.jobs
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
    new.tags := wanted.tags; new.headers := wanted.headers; new.args := wanted.args;
  END IF;
  new.state := wanted.state; new.run_at := wanted.run_at; new.version := old.version + 1;
  new.flags := old.flags & ~16;
  UPDATE $schema.jobs j SET kind = new.kind, priority = new.priority, budget = new.budget, max_attempts = new.max_attempts,
      timeout = new.timeout, expires_at = new.expires_at, correlation_id = new.correlation_id, reply_to = new.reply_to,
      tags = new.tags, headers = new.headers, args = new.args, state = new.state, run_at = new.run_at,
      version = new.version, flags = new.flags
    WHERE j.id = new.id;
  PERFORM $schema.leave_lines(old);
  PERFORM $schema.enter_lines(new);
  IF new.state <> old.state THEN PERFORM $schema.tally(at, new.queue, old.state, new.state); END IF;
  RETURN new;
END $$;

-- Queues a job when the caller's transaction commits; returns its id, or that of the job with the same unique key. NULL is
-- as if not given, but for `timeout`, where it means none. Without `wake` no node is told: one finds the job within 5 seconds.
CREATE FUNCTION $schema.enqueue(
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
    VALUES (nextval('$schema.job_ids'), job.state, CASE WHEN unique_key IS NULL THEN 0 ELSE 4 END, job.priority, 0,
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

-- The oldest of the jobs that wait for others of `schedule`; false = it was ended meanwhile. The schedule is locked.
CREATE FUNCTION $schema.begin_waiting(at bigint, of_schedule bigint, wake boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  next bigint;
  job $schema.jobs;
BEGIN
  SELECT t.job INTO next FROM $schema.schedule_jobs t WHERE t.schedule = of_schedule AND t.waits ORDER BY t.job LIMIT 1;
  SELECT * INTO job FROM $schema.jobs j WHERE j.id = next FOR UPDATE;
  IF NOT FOUND OR job.state IN (4, 6, 7) THEN
    DELETE FROM $schema.schedule_jobs t WHERE t.job = next;
    RETURN false;
  END IF;
  UPDATE $schema.schedule_jobs t SET waits = false WHERE t.job = next;
  IF job.state = 0 THEN
    UPDATE $schema.jobs j SET state = 2, version = j.version + 1 WHERE j.id = next;
    job.state := 2;
    INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at)
      VALUES (job.queue, job.priority, job.kind, job.run_at, job.id,
              CASE WHEN job.started_at = 0 THEN job.expires_at ELSE 0 END);
    PERFORM $schema.tally(at, job.queue, 0, 2);
    IF wake THEN PERFORM $schema.wake_for(at, job, (SELECT q.name FROM $schema.queues q WHERE q.id = job.queue)); END IF;
  END IF;
  RETURN true;
END $$;

-- A job of a schedule has ended: who waits for it begins. As ties.cc does it, which says why it is safe.
CREATE FUNCTION $schema.end_tie(at bigint, ended bigint, of_schedule bigint, wake boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM $schema.schedule_jobs t WHERE t.job = ended AND (t.waits OR NOT EXISTS (
    SELECT 1 FROM $schema.schedule_jobs w WHERE w.schedule = of_schedule AND w.waits AND w.job <> ended));
  IF NOT EXISTS (SELECT 1 FROM $schema.schedule_jobs t
                 WHERE t.job = ended OR (t.schedule = of_schedule AND t.waits)) THEN
    RETURN;
  END IF;
  PERFORM 1 FROM $schema.schedules s WHERE s.id = of_schedule FOR UPDATE;
  DELETE FROM $schema.schedule_jobs t WHERE t.job = ended;
  -- What waits must have somebody to wait for, whose end cannot pass unnoticed: one that begins here, or one that lives and
  -- is locked until this has committed.
  WHILE EXISTS (SELECT 1 FROM $schema.schedule_jobs t WHERE t.schedule = of_schedule AND t.waits) LOOP
    IF NOT EXISTS (SELECT 1 FROM $schema.schedule_jobs t WHERE t.schedule = of_schedule AND NOT t.waits) THEN
      IF $schema.begin_waiting(at, of_schedule, wake) THEN RETURN; END IF;
    ELSE
      PERFORM 1 FROM $schema.schedule_jobs t WHERE t.schedule = of_schedule AND NOT t.waits
        ORDER BY t.job DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED;
      IF FOUND THEN RETURN; END IF;
      PERFORM 1 FROM $schema.schedule_jobs t WHERE t.schedule = of_schedule AND NOT t.waits
        ORDER BY t.job LIMIT 1 FOR KEY SHARE;
      IF FOUND THEN RETURN; END IF;
    END IF;
  END LOOP;
END $$;

-- The job is done when the caller's transaction commits, if `token` is that of its present attempt: 'ok', also if it was
-- done under that token before; 'stale', and the transaction should be rolled back: somebody else has it, or it was stopped;
-- 'not_found'.
CREATE FUNCTION $schema.complete(id bigint, token bigint, result anycompatible DEFAULT NULL::text, wake boolean DEFAULT true)
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
  IF job.schedule <> 0 THEN PERFORM $schema.end_tie(at, job.id, job.schedule, wake); END IF;
  IF wake THEN PERFORM pg_notify('$schema', format('{"ended":[%s]}', job.id)); END IF;
  RETURN 'ok';
END $$;

REVOKE ALL ON FUNCTION $schema.refuse, $schema.check_name, $schema.check_size, $schema.check_json, $schema.json_text,
  $schema.duration_us, $schema.kept, $schema.queue_of, $schema.kind_of, $schema.tally, $schema.leave_lines,
  $schema.enter_lines, $schema.wake_for, $schema.holder_of_key, $schema.enqueue, $schema.begin_waiting, $schema.end_tie,
  $schema.complete FROM PUBLIC;
