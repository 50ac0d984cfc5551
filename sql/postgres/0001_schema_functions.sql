-- The PostgreSQL store: functions. $schema is the name of the schema. This file is part of version 1, after 0001_schema.sql.
--
-- enqueue() and complete() run in the caller's transaction. They write the same rows and refuse the same values as a batch of
-- a node. They run as the owner of the tables, for callers that have no other right. So they do not trust the caller's
-- search_path, types or casts. No role may call them until it is granted that. Parameters have the names of the API. A refused
-- value has SQLSTATE 22023, with the field as the column name of the error.

-- ==== for nodes ==================================================================================================

CREATE FUNCTION $schema.now_us() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- The sum of two sketches of durations: {bucket,count,bucket,count…}, ascending by bucket.
CREATE FUNCTION $schema.add_sketches(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN a = '{}' THEN b WHEN b = '{}' THEN a ELSE (
    SELECT array_agg(x.value ORDER BY s.bucket, x.place)
    FROM (SELECT u.bucket, sum(u.n)::bigint AS n
          FROM (SELECT a[i] AS bucket, a[i + 1] AS n FROM generate_series(1, cardinality(a), 2) i
                UNION ALL
                SELECT b[i], b[i + 1] FROM generate_series(1, cardinality(b), 2) i) u
          GROUP BY u.bucket) s
         CROSS JOIN LATERAL (VALUES (1, s.bucket), (2, s.n)) AS x(place, value)) END
$$;

-- Each batch calls this once before its commit. The lock is held until the commit has ended. It is taken before the look:
-- if another node gives the batch up after the look, that node waits for the lock.
CREATE FUNCTION $schema.hold_batch(of_node bigint, batch bigint, of_session bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock((of_node << 40) | batch);
  IF EXISTS (SELECT 1 FROM $schema.given_up WHERE node = of_node AND session > of_session) THEN
    RAISE EXCEPTION 'the batch was given up' USING ERRCODE = '40003';
  END IF;
END $$;

-- Locked by enqueue() in an application's transaction, so that nodes can ask for the key instead of waiting for its row.
CREATE FUNCTION $schema.key_lock(queue text, key text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT hashtextextended('$schema' || E'\n' || queue || E'\n' || key, 0) $$;

CREATE FUNCTION $schema.is_key_locked(queue text, key text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  lock CONSTANT bigint := $schema.key_lock(queue, key);
BEGIN
  IF NOT pg_try_advisory_lock_shared(lock) THEN RETURN true; END IF;
  PERFORM pg_advisory_unlock_shared(lock);
  RETURN false;
END $$;

-- These locks are in shared memory, so a transaction takes few. For others nodes wait a moment (lock_wait).
CREATE FUNCTION $schema.lock_key(queue text, key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  keys CONSTANT integer := coalesce(nullif(current_setting('mainspring.keys', true), '')::integer, 0);
BEGIN
  IF keys >= 100 THEN RETURN; END IF;
  PERFORM set_config('mainspring.keys', (keys + 1)::text, true);
  PERFORM pg_advisory_xact_lock($schema.key_lock(queue, key));
END $$;

-- The name of a queue or a kind that a node creates. It does not wait for an application's open transaction that creates it.
CREATE FUNCTION $schema.free_name(what text, name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF $schema.is_key_locked('', what || ' ' || name) THEN
    RAISE EXCEPTION '% "%": an open transaction of an application creates it', what, name USING ERRCODE = 'lock_not_available';
  END IF;
  RETURN name;
END $$;

-- Moving the store creates a trigger on `job_counts` that calls this. Every durable batch and every function writes there, so a
-- store that was not moved pays nothing.
CREATE FUNCTION $schema.refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS001',
    MESSAGE = (SELECT format('the store has moved to %s', m.place) FROM $schema.moves m WHERE m.what = 'moved');
END $$;

-- ==== checks =====================================================================================================

CREATE FUNCTION $schema.refuse(field text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message, COLUMN = field;
END $$;

-- Queues whose names begin with "mainspring." belong to the engine: their jobs become signed requests.
CREATE FUNCTION $schema.check_name(field text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF name IS NULL OR name COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 128 letters, digits or . _ : / -, beginning with a letter or '
                                         'a digit', field, left(name, 64)));
  END IF;
  IF field IN ('queue', 'reply_to') AND starts_with(name, 'mainspring.') THEN
    PERFORM $schema.refuse(field, format('%s "%s": must not begin with mainspring., which is the engine''s', field,
                                         left(name, 64)));
  END IF;
  IF field IN ('queue', 'reply_to') AND name = 'host' THEN
    PERFORM $schema.refuse(field, format('%s "host": only a job host adds runs of job folders', field));
  END IF;
END $$;

CREATE FUNCTION $schema.check_size(field text, value text, most integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(value) > most THEN
    PERFORM $schema.refuse(field, format('%s has %s bytes: must be at most %s', field, octet_length(value), most));
  END IF;
END $$;

-- A key of a session, or a limit_key: what can be part of a request's path. check_session_key() in C++ does the same.
CREATE FUNCTION $schema.check_session(field text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(key) NOT BETWEEN 1 AND 512 OR key COLLATE "C" ~ E'[\\x01-\\x1f\\x7f\\\\]' OR key IN ('.', '..') THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 512 bytes without control characters and backslashes, '
                                         'and not . or ..', field, left(key, 64)));
  END IF;
END $$;

-- The first number beyond the range of a double, or repeated member, of a JSON value. NULL = there is none.
CREATE FUNCTION $schema.unfit_value(field text, value json, OUT path text, OUT problem text) LANGUAGE sql AS $$
  WITH RECURSIVE parts(keys, path, v) AS (
    SELECT ARRAY[]::text[], field, value
    UNION ALL
    SELECT p.keys || m.key, p.path || m.part, m.value FROM parts p, LATERAL (
      SELECT o.key, '.' || o.key AS part, o.value FROM json_each(CASE json_typeof(p.v) WHEN 'object' THEN p.v ELSE '{}' END) o
      UNION ALL
      SELECT a.n::text, format('[%s]', a.n - 1), a.value
        FROM json_array_elements(CASE json_typeof(p.v) WHEN 'array' THEN p.v ELSE '[]' END) WITH ORDINALITY AS a(value, n)) m)
  (SELECT p.path, format('%s %s: must be within 1.8e308, the range of a double', p.path, left(p.v::text, 64)) FROM parts p
    WHERE CASE WHEN json_typeof(p.v) <> 'number' OR p.v::text ~ '[eE]-0*[1-9][0-9]{3}' THEN false
      WHEN p.v::text ~ '[eE][+]?0*[1-9][0-9]{3}' THEN p.v::text ~ '[1-9].*[eE]'
      -- Half a unit in the last place above the largest: what rounds to infinity.
      ELSE abs((p.v::text)::numeric) >= 2::numeric ^ 1024 - 2::numeric ^ 970 END LIMIT 1)
  UNION ALL
  (SELECT p.path, format('%s: given twice', p.path) FROM parts p GROUP BY p.keys, p.path HAVING count(*) > 1 LIMIT 1)
  LIMIT 1
$$;

-- JSON that nodes can read: whole surrogate pairs, at most 64 levels, no number beyond the range of a double and no member
-- twice. As check_json() in C++.
CREATE FUNCTION $schema.check_json(field text, value text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  levels CONSTANT integer := 64;
  strings CONSTANT text := E'"(?:\\\\.|[^"\\\\])*"';
  brackets text;
  bare text;
  again text;
  problem text;
  unfit_path text;
  unfit_problem text;
BEGIN
  BEGIN
    PERFORM value::json;
    bare := regexp_replace(value, strings, '', 'g');
    again := bare;
    -- jsonb reads escapes, and has each member once, but no \u0000.
    IF bare LIKE '%:%:%' OR value ~* E'\\\\ud[89a-f]' THEN
      again := regexp_replace(replace(value, E'\\u0000', E'\\u0001')::jsonb::text, strings, '', 'g');
    END IF;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    problem := SQLERRM;
  END;
  IF bare IS NOT NULL AND (problem IS NOT NULL OR bare ~ '[0-9][eE]|[0-9]{200}' OR
      length(translate(bare, ':', '')) - length(bare) <> length(translate(again, ':', '')) - length(again)) THEN
    BEGIN
      SELECT u.path, u.problem INTO unfit_path, unfit_problem
        FROM $schema.unfit_value(field, replace(value, E'\\u0000', E'\\u0001')::json) u;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
      problem := SQLERRM;
    END;
    IF unfit_path IS NOT NULL THEN PERFORM $schema.refuse(unfit_path, unfit_problem); END IF;
  END IF;
  IF problem IS NOT NULL THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be a JSON value: %s', field, left(value, 64), problem));
  END IF;
  IF length(value) - length(translate(value, '[{', '')) <= levels THEN RETURN; END IF;
  -- Only the brackets remain. Each round removes the innermost pairs.
  brackets := translate(regexp_replace(bare, '[^][{}]', '', 'g'), '{}', '[]');
  FOR level IN 1 .. levels LOOP
    EXIT WHEN brackets = '';
    brackets := replace(brackets, '[]', '');
  END LOOP;
  IF brackets <> '' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must have at most %s levels', field, left(value, 64), levels));
  END IF;
END $$;

-- An argument of a function as JSON text. It is not cast: the caller may have created its type and the casts of that, and
-- those would run as the owner.
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
  days CONSTANT integer := CASE WHEN field = 'unique_for' THEN 365 ELSE 36500 END;
BEGIN
  IF us < 0 OR (us = 0 AND NOT zero) THEN
    PERFORM $schema.refuse(field, format('%s "%s": must %s', field, value,
                                         CASE WHEN zero THEN 'not be negative' ELSE 'be more than 0' END));
  ELSIF us > days * 86400000000::numeric THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be at most %s days', field, value, days));
  END IF;
  RETURN us::bigint;
END $$;

-- A text as nodes store it: '' is NULL. A text that begins with 0x01 is stored as 0x01 and hexadecimal digits.
CREATE FUNCTION $schema.kept(value text) RETURNS text LANGUAGE sql IMMUTABLE
  AS $$ SELECT CASE WHEN ascii(value) = 1 THEN chr(1) || encode(convert_to(value, 'UTF8'), 'hex') ELSE nullif(value, '') END $$;

-- ==== parts of enqueue() and complete() ==========================================================================

-- The id of a queue or a kind. The first job creates it; others that do the same wait for the end of that transaction.
CREATE FUNCTION $schema.queue_of(wanted text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  known integer;
BEGIN
  LOOP
    SELECT q.id INTO known FROM $schema.queues q WHERE q.name = wanted;
    IF known IS NOT NULL THEN RETURN known; END IF;
    PERFORM $schema.lock_key('', 'queue ' || wanted);
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
    PERFORM $schema.lock_key('', 'kind ' || wanted);
    INSERT INTO $schema.kinds (name) VALUES (wanted) ON CONFLICT (name) DO NOTHING RETURNING id INTO known;
    IF known IS NOT NULL THEN RETURN known; END IF;
  END LOOP;
END $$;

-- Counts that a job of `queue` went from one state to another; from NULL: the job is new.
CREATE FUNCTION $schema.count_job(at bigint, queue integer, before integer, after integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  was CONSTANT integer := coalesce(before, -1);
BEGIN
  INSERT INTO $schema.job_counts (node, batch, at, queue, enqueued, waiting, scheduled, available, running, completed, retryable)
    VALUES (0, 0, at, queue, (was = -1)::integer, (after = 0)::integer - (was = 0)::integer,
      (after = 1)::integer - (was = 1)::integer, (after = 2)::integer - (was = 2)::integer,
      (after = 3)::integer - (was = 3)::integer, (after = 4)::integer - (was = 4)::integer,
      (after = 5)::integer - (was = 5)::integer);
END $$;

-- The session, locked; created if it is new. loaded_sessions.cc does the same.
CREATE FUNCTION $schema.lock_session(of_queue integer, wanted text) RETURNS $schema.sessions LANGUAGE plpgsql AS $$
DECLARE
  locked $schema.sessions;
BEGIN
  INSERT INTO $schema.sessions AS s (queue, key) VALUES (of_queue, wanted)
    ON CONFLICT (queue, key) DO UPDATE SET queue = s.queue WHERE false;
  SELECT * INTO locked FROM $schema.sessions s WHERE s.queue = of_queue AND s.key = wanted;
  RETURN locked;
END $$;

CREATE FUNCTION $schema.drop_empty_session(of_queue integer, wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM $schema.sessions s WHERE s.queue = of_queue AND s.key = wanted AND s.jobs = 0 AND s.head = 0 AND s.token = 0
    AND s.stop = 0 AND s.state IS NULL;
END $$;

-- A new job with its id and its first state. The id comes after the lock of the session, so ids of a session grow in the
-- order of enqueue over all nodes.
CREATE FUNCTION $schema.enter_session(at bigint, job $schema.jobs) RETURNS $schema.jobs LANGUAGE plpgsql AS $$
DECLARE
  s $schema.sessions;
BEGIN
  IF job.session IS NULL THEN
    job.id := nextval('$schema.job_ids');
    RETURN job;
  END IF;
  s := $schema.lock_session(job.queue, job.session);
  job.id := nextval('$schema.job_ids');
  job.flags := job.flags | 64;
  IF s.head = 0 AND s.stop = 0 THEN
    s.head := job.id;
    IF job.state = 2 AND s.token <> 0 THEN job.state := 0; END IF;
  ELSE
    INSERT INTO $schema.session_jobs (session, id) VALUES (s.id, job.id);
    job.state := 0;
  END IF;
  UPDATE $schema.sessions u SET head = s.head, first = least(s.first, job.id), jobs = s.jobs + 1, changed_at = at, prune_at = 0
    WHERE u.id = s.id;
  RETURN job;
END $$;

-- Removes and adds the rows of a job in `ready`, `due` and `expiring`, as the row of the job says.
CREATE FUNCTION $schema.leave_ready(job $schema.jobs) RETURNS void LANGUAGE plpgsql AS $$
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

CREATE FUNCTION $schema.enter_ready(job $schema.jobs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  expires_at CONSTANT bigint := CASE WHEN job.started_at = 0 THEN job.expires_at ELSE 0 END;
BEGIN
  IF job.state = 2 THEN
    INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at, session)
      VALUES (job.queue, job.priority, job.kind, job.run_at, job.id, expires_at,
              CASE WHEN job.session IS NULL THEN 0 ELSE
                (SELECT s.id FROM $schema.sessions s WHERE s.queue = job.queue AND s.key = job.session) END);
  ELSIF job.state IN (1, 5) THEN
    INSERT INTO $schema.due (run_at, id) VALUES (job.run_at, job.id);
  END IF;
  IF expires_at <> 0 THEN
    INSERT INTO $schema.expiring (expires_at, id) VALUES (expires_at, job.id) ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- Notifies the nodes at the commit. Nodes look for due jobs every 5 seconds, so what is due later needs no notification. For
-- a job of a session also those that accept sessions, or hold this one.
CREATE FUNCTION $schema.wake_for(at bigint, job $schema.jobs, queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF job.state = 2 AND job.session IS NULL THEN
    PERFORM pg_notify('$schema', format('{"queues":["%s"]}', queue));
  ELSIF job.state = 2 THEN
    PERFORM pg_notify('$schema', format('{"queues":["%s","~accept/%s"]}', queue, queue));
  ELSIF job.state = 0 THEN
    PERFORM pg_notify('$schema', format('{"queues":[%s]}', to_json('~session/' || queue || E'\n' || job.session)));
  ELSIF job.run_at < at + 10000000 THEN
    PERFORM pg_notify('$schema', format('{"next_due":"%s"}', to_char(to_timestamp(job.run_at / 1e6) AT TIME ZONE 'UTC',
                                                                    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
  END IF;
END $$;

-- The job that has a unique key in `queue`, changed as `wanted` and `on_conflict` say. NULL = the key is free, and this
-- transaction has locked its row. A pruned job keeps its key until its window is over.
CREATE FUNCTION $schema.holder_of_key(at bigint, wanted $schema.jobs, on_conflict text) RETURNS $schema.jobs
LANGUAGE plpgsql AS $$
DECLARE
  held $schema.uniques;
  old $schema.jobs;
  new $schema.jobs;
  of_old $schema.sessions;
BEGIN
  LOOP
    INSERT INTO $schema.uniques (queue, key, id, until) VALUES (wanted.queue, wanted.unique_key, 0, 0)
      ON CONFLICT (queue, key) DO NOTHING;
    SELECT * INTO held FROM $schema.uniques u WHERE u.queue = wanted.queue AND u.key = wanted.unique_key FOR UPDATE;
    EXIT WHEN FOUND;
  END LOOP;
  IF held.id = 0 THEN RETURN NULL; END IF;
  SELECT * INTO old FROM $schema.jobs j WHERE j.id = held.id FOR UPDATE;
  IF NOT FOUND THEN
    IF held.ended IS NOT NULL AND at < held.until THEN
      old.id := held.id; old.state := held.ended;
      RETURN old;
    END IF;
    UPDATE $schema.uniques u SET ended = NULL
      WHERE u.queue = held.queue AND u.key = held.key AND u.ended IS NOT NULL;
    RETURN NULL;
  END IF;
  IF old.state IN (4, 6, 7) AND at >= held.until THEN RETURN NULL; END IF;
  IF old.state IN (3, 4, 6, 7) OR old.deferred OR old.quarantined IS NOT NULL OR on_conflict = 'keep' THEN RETURN old; END IF;
  new := old;
  IF on_conflict = 'replace' THEN
    new.kind := wanted.kind; new.priority := wanted.priority; new.budget := wanted.max_attempts;
    new.max_attempts := wanted.max_attempts; new.attempt := 0; new.lost := NULL; new.started_at := 0;
    new.timeout := wanted.timeout; new.expires_at := wanted.expires_at;
    new.correlation_id := wanted.correlation_id; new.reply_to := wanted.reply_to;
    new.reply_session := wanted.reply_session; new.limit_key := wanted.limit_key;
    new.tags := wanted.tags; new.headers := wanted.headers; new.args := wanted.args; new.follow_ups := NULL;
    -- Nothing that attempts with the old args left reaches the next attempt: see forget_attempts().
    IF old.flags & 16384 <> 0 THEN DELETE FROM $schema.memos m WHERE m.job = old.id; END IF;
    UPDATE $schema.extras e SET checkpoint = NULL, progress_value = NULL, progress_text = NULL, warning = NULL
      WHERE e.id = old.id AND old.flags & 1 <> 0;
    new.flags := (old.flags & ~19616) | (wanted.flags & 3232);
  ELSIF wanted.expires_at <> 0 THEN
    new.expires_at := wanted.expires_at; new.flags := (old.flags & ~1024) | (wanted.flags & 1024);
  ELSIF old.expires_at <> 0 THEN
    new.expires_at := greatest(wanted.run_at, at) + old.expires_at - old.run_at;
  END IF;
  new.state := wanted.state;
  IF old.session IS NOT NULL THEN
    -- It keeps its place in the session.
    of_old := $schema.lock_session(old.queue, old.session);
    IF of_old.head <> old.id OR (new.state = 2 AND of_old.token <> 0) THEN new.state := 0; END IF;
  END IF;
  new.run_at := wanted.run_at; new.version := old.version + 1;
  new.flags := new.flags & ~16;
  UPDATE $schema.jobs j SET kind = new.kind, priority = new.priority, budget = new.budget, max_attempts = new.max_attempts,
      timeout = new.timeout, expires_at = new.expires_at, correlation_id = new.correlation_id, reply_to = new.reply_to,
      reply_session = new.reply_session, limit_key = new.limit_key,
      tags = new.tags, headers = new.headers, args = new.args, follow_ups = new.follow_ups, state = new.state, run_at = new.run_at,
      version = new.version, flags = new.flags, attempt = new.attempt, lost = new.lost, started_at = new.started_at
    WHERE j.id = new.id;
  PERFORM $schema.leave_ready(old);
  PERFORM $schema.enter_ready(new);
  PERFORM $schema.count_job(at, new.queue, old.state, new.state);
  RETURN new;
END $$;

-- Makes the first waiting job of a session its head, if it has none. The caller has locked and changed the session.
CREATE FUNCTION $schema.settle_session(at bigint, s $schema.sessions, wake boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next bigint;
  job $schema.jobs;
  lives boolean;
BEGIN
  WHILE s.head = 0 AND s.stop = 0 LOOP
    SELECT l.id INTO next FROM $schema.session_jobs l WHERE l.session = s.id AND l.id >= s.first ORDER BY l.id LIMIT 1;
    EXIT WHEN NOT FOUND;
    DELETE FROM $schema.session_jobs l WHERE l.session = s.id AND l.id = next;
    s.first := next + 1;
    SELECT * INTO job FROM $schema.jobs j WHERE j.id = next FOR UPDATE;
    IF NOT FOUND OR job.state IN (4, 6, 7) THEN
      s.jobs := s.jobs - 1;
      CONTINUE;
    END IF;
    s.head := next;
    job.state := CASE WHEN job.run_at > at THEN 1 WHEN s.token <> 0 THEN 0 ELSE 2 END;
    IF job.state <> 0 THEN
      UPDATE $schema.jobs j SET state = job.state, version = j.version + 1 WHERE j.id = next;
      PERFORM $schema.enter_ready(job);
      PERFORM $schema.count_job(at, job.queue, 0, job.state);
    END IF;
    IF wake THEN PERFORM $schema.wake_for(at, job, (SELECT q.name FROM $schema.queues q WHERE q.id = job.queue)); END IF;
  END LOOP;
  lives := s.jobs <> 0 OR s.token <> 0 OR s.stop <> 0;
  IF NOT lives AND s.state IS NULL THEN
    DELETE FROM $schema.sessions u WHERE u.id = s.id;
    RETURN;
  END IF;
  UPDATE $schema.sessions u SET head = s.head, first = s.first, jobs = s.jobs, changed_at = at, state = s.state,
      state_bytes = coalesce(octet_length(s.state), 0), prune_at = CASE WHEN lives THEN 0 ELSE at +
        (SELECT t.value FROM $schema.settings t WHERE t.name = 'retention_dead') END
    WHERE u.id = s.id;
END $$;

-- Starts the oldest job that waits for others of `of_schedule`; false = that job has ended. The caller has locked the schedule.
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
    PERFORM $schema.count_job(at, job.queue, 0, 2);
    IF wake THEN PERFORM $schema.wake_for(at, job, (SELECT q.name FROM $schema.queues q WHERE q.id = job.queue)); END IF;
  END IF;
  RETURN true;
END $$;

-- Starts the next job of a schedule, one of whose jobs has ended. schedule_links.cc does the same, and says why it is safe.
CREATE FUNCTION $schema.end_link(at bigint, ended bigint, of_schedule bigint, wake boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM $schema.schedule_jobs t WHERE t.job = ended AND (t.waits OR NOT EXISTS (
    SELECT 1 FROM $schema.schedule_jobs w WHERE w.schedule = of_schedule AND w.waits AND w.job <> ended));
  IF NOT EXISTS (SELECT 1 FROM $schema.schedule_jobs t
                 WHERE t.job = ended OR (t.schedule = of_schedule AND t.waits)) THEN
    RETURN;
  END IF;
  PERFORM 1 FROM $schema.schedules s WHERE s.id = of_schedule FOR UPDATE;
  DELETE FROM $schema.schedule_jobs t WHERE t.job = ended;
  -- A job that waits needs a job whose end it cannot miss: one that starts here, or a live one that stays locked until this
  -- transaction has committed.
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

-- Creates the jobs that follow the completed job `ended`. They are available at once.
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
    -- Tags that begin with 0x01 are stored as hexadecimal digits: see kept().
    SELECT format('%s,"tags":[%s]', told, string_agg(to_json(CASE WHEN ascii(t) = 1
             THEN convert_from(decode(substr(t, 2), 'hex'), 'UTF8') ELSE t END)::text, ',' ORDER BY n))
      INTO told FROM unnest(ended.tags) WITH ORDINALITY AS u(t, n);
  END IF;
  FOR next IN
    SELECT f->>'queue' AS queue, f->>'kind' AS kind, coalesce((f->>'priority')::integer, 5) AS priority,
           coalesce((f->'data')::text, 'null') AS data, f->>'session' AS session,
           extract(epoch FROM (f->>'expires_in')::interval) * 1000000 AS expires_in, n
      FROM json_array_elements(ended.follow_ups::json) WITH ORDINALITY AS u(f, n)
      WHERE f->'on' IS NULL OR (f->'on')::jsonb ? 'completed'
    UNION ALL SELECT ended.reply_to, 'reply', 5, 'null', ended.reply_session,
        (SELECT value FROM $schema.settings WHERE name = 'retention_replies'), 1000
      WHERE ended.reply_to IS NOT NULL AND NOT EXISTS (SELECT 1 FROM json_array_elements(ended.follow_ups::json) AS v(f)
        WHERE f->>'queue' = ended.reply_to AND f->>'kind' = 'reply' AND (f->'on' IS NULL OR (f->'on')::jsonb ? 'completed'))
    ORDER BY n
  LOOP
    job.state := 2; job.flags := 0; job.priority := next.priority; job.run_at := at; job.started_at := 0;
    job.expires_at := coalesce(at + next.expires_in, 0);
    job.queue := $schema.queue_of(next.queue); job.kind := $schema.kind_of(next.kind); job.session := nullif(next.session, '');
    job := $schema.enter_session(at, job);
    INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, lease_until, lease,
        claimed_at, run_at, started_at, finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget,
        correlation_id, headers, args, session, trigger_depth)
      VALUES (job.id, job.state, job.flags, job.priority, 0, 20, 1, 0, 0, 0, 0, at, 0, 0, job.expires_at, at, 900000000, 0, job.queue,
        job.kind, 20, coalesce(ended.correlation_id, ended.id::text), ended.headers, format('%s,"data":%s}', told, next.data),
        job.session, ended.trigger_depth);
    PERFORM $schema.enter_ready(job);
    PERFORM $schema.count_job(at, job.queue, NULL, job.state);
    IF wake THEN PERFORM $schema.wake_for(at, job, next.queue); END IF;
  END LOOP;
END $$;

-- ==== for applications ===========================================================================================

-- Enqueues a job when the caller's transaction commits. Returns its id, or that of the job with the same unique key. NULL is
-- the default of each parameter, except for `timeout`, where it means none. Without `wake` no node is notified: a node finds
-- the job within 5 seconds.
CREATE FUNCTION $schema.enqueue(
  queue text, kind text, args anycompatible DEFAULT '{}'::text, priority integer DEFAULT 5, run_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL, max_attempts integer DEFAULT 20, unique_key text DEFAULT NULL, unique_for interval DEFAULT NULL,
  on_conflict text DEFAULT 'keep', timeout interval DEFAULT '15 min', expires_in interval DEFAULT NULL,
  tags text[] DEFAULT NULL, headers jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, reply_to text DEFAULT NULL,
  wake boolean DEFAULT true, session text DEFAULT NULL, session_on_dead text DEFAULT 'skip', reply_session text DEFAULT NULL,
  on_expiry text DEFAULT 'cancel', limit_key text DEFAULT NULL
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
  IF reply_session <> '' THEN
    PERFORM $schema.check_session('reply_session', reply_session);
    IF coalesce(reply_to, '') = '' THEN
      PERFORM $schema.refuse('reply_session', 'reply_session: is for replies, and needs reply_to');
    END IF;
    job.reply_session := reply_session;
  END IF;
  IF session <> '' THEN
    PERFORM $schema.check_session('session', session);
    IF unique_key IS NOT NULL AND on_conflict <> 'keep' THEN
      PERFORM $schema.refuse('on_conflict', format('on_conflict "%s": must be keep for a job of a session',
                                                   left(on_conflict, 64)));
    END IF;
    job.session := session;
  END IF;
  IF session_on_dead NOT IN ('skip', 'block', 'park') THEN
    PERFORM $schema.refuse('session_on_dead', format('session_on_dead "%s": must be "skip", "block" or "park"',
                                                     left(session_on_dead, 64)));
  END IF;
  IF limit_key <> '' THEN
    PERFORM $schema.check_session('limit_key', limit_key);
    IF job.session IS NOT NULL THEN
      PERFORM $schema.refuse('limit_key', 'limit_key: must not be given together with session, whose jobs run one at a time');
    END IF;
    job.limit_key := limit_key;
  END IF;
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
  IF on_expiry NOT IN ('cancel', 'dead') THEN
    PERFORM $schema.refuse('on_expiry', format('on_expiry "%s": must be "cancel" or "dead"', left(on_expiry, 64)));
  ELSIF on_expiry = 'dead' AND expires_in IS NULL THEN
    PERFORM $schema.refuse('on_expiry', 'on_expiry: is for jobs that expire, and needs expires_in');
  END IF;
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
  job.flags := CASE WHEN unique_key IS NULL THEN 0 ELSE 4 END | CASE WHEN job.reply_to IS NULL THEN 0 ELSE 32 END
    | CASE WHEN job.reply_session IS NULL THEN 0 ELSE 128 END
    | CASE WHEN job.session IS NULL THEN 0 WHEN session_on_dead = 'block' THEN 256 WHEN session_on_dead = 'park' THEN 512
           ELSE 0 END
    | CASE WHEN on_expiry = 'dead' THEN 1024 ELSE 0 END | CASE WHEN job.limit_key IS NULL THEN 0 ELSE 2048 END;
  -- The session before the key: nodes lock them in this order.
  IF job.session IS NOT NULL THEN PERFORM $schema.lock_session(job.queue, job.session); END IF;
  IF unique_key IS NOT NULL THEN
    PERFORM $schema.lock_key(queue, unique_key);
    holder := $schema.holder_of_key(at, job, coalesce(on_conflict, 'keep'));
    IF holder.id IS NOT NULL THEN
      IF wake AND on_conflict <> 'keep' AND holder.state IN (1, 2) THEN PERFORM $schema.wake_for(at, holder, queue); END IF;
      IF job.session IS NOT NULL THEN PERFORM $schema.drop_empty_session(job.queue, job.session); END IF;
      RETURN holder.id;
    END IF;
  END IF;
  job := $schema.enter_session(at, job);
  INSERT INTO $schema.jobs (id, state, flags, priority, attempt, max_attempts, version, token, lease_until, lease, claimed_at,
      run_at, started_at, finished_at, expires_at, created_at, timeout, schedule, queue, kind, budget, unique_key,
      correlation_id, reply_to, tags, headers, args, session, reply_session, limit_key)
    VALUES (job.id, job.state, job.flags, job.priority, 0, job.max_attempts, 1, 0, 0, 0, 0, job.run_at, 0, 0, job.expires_at,
      at, job.timeout, 0, job.queue, job.kind, job.max_attempts, job.unique_key, job.correlation_id, job.reply_to, job.tags,
      job.headers, job.args, job.session, job.reply_session, job.limit_key);
  PERFORM $schema.enter_ready(job);
  PERFORM $schema.count_job(at, job.queue, NULL, job.state);
  IF unique_key IS NOT NULL THEN
    -- Without a window the key is free as soon as the job ends, whatever the clock says.
    UPDATE $schema.uniques u SET id = job.id, until = CASE WHEN window_us > 0 THEN at + window_us ELSE 0 END
      WHERE u.queue = job.queue AND u.key = job.unique_key;
  END IF;
  IF wake THEN PERFORM $schema.wake_for(at, job, queue); END IF;
  RETURN job.id;
END $$;

-- Completes the job when the caller's transaction commits, if `token` belongs to its present attempt. Returns
--   'ok'         also if that token has completed it before
--   'stale'      another worker has the job, or it was stopped: roll the transaction back
--   'not_found'
-- `session_state` becomes the state of its session, JSON; '' removes it, NULL leaves it. Jobs of steps and jobs that triggers
-- watch must be completed through a node, which starts or fires what follows.
CREATE FUNCTION $schema.complete(id bigint, token bigint, result anycompatible DEFAULT NULL::text,
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
  -- The session before the job: nodes lock them in this order.
  SELECT s.* INTO of_job FROM $schema.jobs j JOIN $schema.sessions s ON s.queue = j.queue AND s.key = j.session
    WHERE j.id = complete.id FOR NO KEY UPDATE OF s;
  SELECT * INTO job FROM $schema.jobs j WHERE j.id = complete.id FOR UPDATE;
  IF NOT FOUND THEN RETURN 'not_found'; END IF;
  IF job.token IS DISTINCT FROM token OR job.state <> 3 THEN
    RETURN CASE WHEN job.token = token AND job.state = 4 THEN 'ok' ELSE 'stale' END;
  END IF;
  IF job.flags & 4096 <> 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = format('job %s is a step of a workflow: must be completed through a node, which starts the steps after it',
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
  PERFORM $schema.count_job(at, job.queue, 3, 4);
  IF of_job.id IS NOT NULL AND job.session IS NOT NULL THEN
    of_job.head := 0; of_job.jobs := of_job.jobs - 1;
    IF session_state IS NOT NULL THEN of_job.state := nullif(btrim(session_state, E' \t\r\n'), ''); END IF;
    PERFORM $schema.settle_session(at, of_job, wake);
  END IF;
  IF job.flags & 32 <> 0 THEN PERFORM $schema.follow_completed(at, job, result_text, wake); END IF;
  IF job.schedule <> 0 THEN PERFORM $schema.end_link(at, job.id, job.schedule, wake); END IF;
  IF wake THEN PERFORM pg_notify('$schema', format('{"ended":[%s]}', job.id)); END IF;
  RETURN 'ok';
END $$;

-- For CREATE TRIGGER … AFTER INSERT OR UPDATE OR DELETE ON a table FOR EACH ROW EXECUTE FUNCTION enqueue_row('queue', 'kind'):
-- a job for each written row, in the writer's transaction. Its args are {"operation", "schema", "table", "row", "old"}. It
-- runs as the writer, who needs the right to call enqueue(): casts that another role created may turn rows into JSON.
CREATE FUNCTION $schema.enqueue_row() RETURNS trigger LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  args jsonb;
  path text;
BEGIN
  IF TG_WHEN <> 'AFTER' OR TG_LEVEL <> 'ROW' OR TG_NARGS <> 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('trigger %s on %s: enqueue_row(''queue'', ''kind'') must be called AFTER, FOR EACH ROW, with both', TG_NAME,
                       TG_TABLE_NAME);
  END IF;
  args := jsonb_build_object('operation', lower(TG_OP), 'schema', TG_TABLE_SCHEMA, 'table', TG_TABLE_NAME,
    'row', CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END,
    'old', CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END);
  -- In JSON, PostgreSQL makes texts of these numbers.
  IF args::text ~ '"(NaN|-?Infinity)"' THEN
    SELECT format('args.%s.%s', w.which, a.attname) INTO path
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid, (VALUES ('row'), ('old')) AS w(which)
      WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped AND
        coalesce(nullif(t.typbasetype, 0), t.oid)::regtype IN
          ('float4', 'float8', 'numeric', 'float4[]', 'float8[]', 'numeric[]') AND
        jsonb_path_exists(args -> w.which -> a.attname, '$.** ? (@.type() == "string")');
    IF path IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = path,
        MESSAGE = format('%s: must be a number; JSON has no NaN and no Infinity', path);
    END IF;
  END IF;
  PERFORM $schema.enqueue(queue => TG_ARGV[0], kind => TG_ARGV[1], args => args);
  RETURN NULL;
END $$;

-- now_us(), hold_batch() and the triggers of the audit are safe for every role.
REVOKE ALL ON FUNCTION $schema.begin_waiting, $schema.check_json, $schema.check_name, $schema.check_session, $schema.check_size,
  $schema.complete, $schema.drop_empty_session, $schema.duration_us, $schema.end_link, $schema.enqueue, $schema.enqueue_row,
  $schema.enter_ready, $schema.enter_session, $schema.follow_completed, $schema.holder_of_key, $schema.json_text, $schema.kept,
  $schema.kind_of, $schema.leave_ready, $schema.lock_key, $schema.lock_session, $schema.queue_of, $schema.refuse, $schema.refuse_moved,
  $schema.settle_session, $schema.count_job, $schema.unfit_value, $schema.wake_for FROM PUBLIC;
