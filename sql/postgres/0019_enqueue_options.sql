-- Schema 19 of the shared store: enqueue() takes on_expiry and limit_key. $schema is its name.

-- What no path of a request can name would be held, and never renewed. As check_session_key of nodes.
CREATE OR REPLACE FUNCTION $schema.check_session(field text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(key) NOT BETWEEN 1 AND 512 OR key COLLATE "C" ~ '[\x01-\x1f\x7f\\]' OR key IN ('.', '..') THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 512 bytes without control characters and backslashes, '
                                         'and not . or ..', field, left(key, 64)));
  END IF;
END $$;

-- As before; with limit_key and on_expiry replaced, too.
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
  IF old.state IN (3, 4, 6, 7) OR old.deferred OR on_conflict = 'keep' THEN RETURN old; END IF;
  new := old;
  IF on_conflict = 'replace' THEN
    new.kind := wanted.kind; new.priority := wanted.priority; new.budget := wanted.max_attempts;
    new.max_attempts := greatest(wanted.max_attempts, old.attempt + 1);
    new.timeout := wanted.timeout; new.expires_at := wanted.expires_at;
    new.correlation_id := wanted.correlation_id; new.reply_to := wanted.reply_to;
    new.reply_session := wanted.reply_session; new.limit_key := wanted.limit_key;
    new.tags := wanted.tags; new.headers := wanted.headers; new.args := wanted.args; new.follow_ups := NULL;
    IF old.flags & 16384 <> 0 THEN DELETE FROM $schema.memos m WHERE m.job = old.id; END IF;
    new.flags := (old.flags & ~19616) | (wanted.flags & 3232);
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
      reply_session = new.reply_session, limit_key = new.limit_key,
      tags = new.tags, headers = new.headers, args = new.args, follow_ups = new.follow_ups, state = new.state, run_at = new.run_at,
      version = new.version, flags = new.flags
    WHERE j.id = new.id;
  PERFORM $schema.leave_lines(old);
  PERFORM $schema.enter_lines(new);
  PERFORM $schema.tally(at, new.queue, old.state, new.state);
  RETURN new;
END $$;

-- With more parameters it is another function: whoever might call the old one may call this.
SELECT set_config('mainspring.granted', coalesce((
  SELECT json_agg(json_build_object('name', p.proname, 'to', CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE
                    quote_ident(pg_get_userbyid(a.grantee)) END, 'passes_on', a.is_grantable))
    FROM pg_proc p, aclexplode(p.proacl) AS a
    WHERE p.pronamespace = '$schema'::regnamespace AND p.proname = 'enqueue' AND a.grantee <> p.proowner
  )::text, '[]'), true);
DROP FUNCTION $schema.enqueue;

-- Queues a job when the caller's transaction commits; returns its id, or that of the job with the same unique key. NULL is
-- as if not given, but for `timeout`, where it means none. Without `wake` no node is told: one finds the job within 5 seconds.
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
  -- The session before the key: in the order in which nodes lock them.
  IF job.session IS NOT NULL THEN PERFORM $schema.lock_session(job.queue, job.session); END IF;
  IF unique_key IS NOT NULL THEN
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

REVOKE ALL ON FUNCTION $schema.enqueue FROM PUBLIC;

DO $do$
DECLARE
  granted record;
BEGIN
  FOR granted IN SELECT g->>'name' AS name, g->>'to' AS grantee, (g->>'passes_on')::boolean AS passes_on
    FROM json_array_elements(current_setting('mainspring.granted')::json) AS g
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION $schema.%I TO %s%s', granted.name, granted.grantee,
                   CASE WHEN granted.passes_on THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
END $do$;
