-- Schema 6 of the shared store: sessions, jobs of one key that run one at a time. $schema is its name.
--
-- sessions      one row per session that has a living job, a holder, a state, or is stopped. Whoever changes who has the turn, or
--               who waits for it, locks the row first, before any job. It goes with the batch that leaves nothing of it.
-- session_jobs  those that wait for the turn, by id. The job that has it stands in sessions.turn alone; while somebody holds the
--               session it is in state 0 where it would be available.
-- jobs.session  the key, NULL = none; then bit 64 of jobs.flags is set, 256 says that its death blocks the session, 512 that it
--               parks it. Bit 128: what the job is followed by goes into a session (reply_session, or a follow-up's own).
-- ready.session the session's id, 0 = none: whoever accepts the next free session looks at these entries alone.
-- A program that knows only schema 5 ends such a job without passing the turn on; who next locks the session does that.

CREATE TABLE $schema.sessions (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  turn bigint NOT NULL DEFAULT 0,       -- the job that has it; 0 = nobody
  first bigint NOT NULL DEFAULT 0,      -- nobody in the line has a lower id
  jobs bigint NOT NULL DEFAULT 0,       -- living: that with the turn and the line
  stop smallint NOT NULL DEFAULT 0,     -- 0 none 1 blocked 2 parked
  stopped_by bigint NOT NULL DEFAULT 0, -- the dead job
  token bigint NOT NULL DEFAULT 0,      -- of its holder; 0 = none
  lease bigint NOT NULL DEFAULT 0,      -- as it was last asked for
  kept bigint NOT NULL DEFAULT 0,       -- the longest that this holder asked for
  lease_until bigint NOT NULL DEFAULT 0,
  look_at bigint NOT NULL DEFAULT 0,    -- held: when somebody should look whether the lease has ended
  prune_at bigint NOT NULL DEFAULT 0,   -- a state and nothing else: when it goes
  changed_at bigint NOT NULL DEFAULT 0,
  state_bytes integer NOT NULL DEFAULT 0,
  worker text,
  state text,
  UNIQUE (queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX sessions_held ON $schema.sessions (look_at) WHERE look_at <> 0;
CREATE INDEX sessions_prune ON $schema.sessions (prune_at) WHERE prune_at <> 0;

CREATE TABLE $schema.session_jobs (
  session bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (session, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE $schema.jobs ADD COLUMN session text COLLATE "C", ADD COLUMN reply_session text;

ALTER TABLE $schema.ready ADD COLUMN session bigint NOT NULL DEFAULT 0;
CREATE INDEX ready_sessions ON $schema.ready (queue, priority, run_at, id) WHERE session <> 0;

-- -- jobs in a transaction of the caller's own -----------------------------------------------------------------------------------

CREATE FUNCTION $schema.check_session(field text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(key) NOT BETWEEN 1 AND 512 OR key COLLATE "C" ~ '[\x01-\x1f\x7f]' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 512 bytes without control characters', field, left(key, 64)));
  END IF;
END $$;

-- Made if new. As sessions_in_hand.cc does it.
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
  DELETE FROM $schema.sessions s WHERE s.queue = of_queue AND s.key = wanted AND s.jobs = 0 AND s.turn = 0 AND s.token = 0
    AND s.stop = 0 AND s.state IS NULL;
END $$;

-- A new job, with its id, and the state in which it begins; of a session: behind those that came before, over all nodes, for
-- it has its id from behind the lock.
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
  IF s.turn = 0 AND s.stop = 0 THEN
    s.turn := job.id;
    IF job.state = 2 AND s.token <> 0 THEN job.state := 0; END IF;
  ELSE
    INSERT INTO $schema.session_jobs (session, id) VALUES (s.id, job.id);
    job.state := 0;
  END IF;
  UPDATE $schema.sessions u SET turn = s.turn, first = least(s.first, job.id), jobs = s.jobs + 1, changed_at = at, prune_at = 0
    WHERE u.id = s.id;
  RETURN job;
END $$;

CREATE OR REPLACE FUNCTION $schema.enter_lines(job $schema.jobs) RETURNS void LANGUAGE plpgsql AS $$
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

-- As before; of a job of a session also who accepts sessions, or holds this one.
CREATE OR REPLACE FUNCTION $schema.wake_for(at bigint, job $schema.jobs, queue text) RETURNS void LANGUAGE plpgsql AS $$
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

-- A session that the caller has locked and changed: the first in line gets the turn if nobody has it.
CREATE FUNCTION $schema.settle_session(at bigint, s $schema.sessions, wake boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next bigint;
  job $schema.jobs;
  lives boolean;
BEGIN
  WHILE s.turn = 0 AND s.stop = 0 LOOP
    SELECT l.id INTO next FROM $schema.session_jobs l WHERE l.session = s.id AND l.id >= s.first ORDER BY l.id LIMIT 1;
    EXIT WHEN NOT FOUND;
    DELETE FROM $schema.session_jobs l WHERE l.session = s.id AND l.id = next;
    s.first := next + 1;
    SELECT * INTO job FROM $schema.jobs j WHERE j.id = next FOR UPDATE;
    IF NOT FOUND OR job.state IN (4, 6, 7) THEN
      s.jobs := s.jobs - 1;
      CONTINUE;
    END IF;
    s.turn := next;
    job.state := CASE WHEN job.run_at > at THEN 1 WHEN s.token <> 0 THEN 0 ELSE 2 END;
    IF job.state <> 0 THEN
      UPDATE $schema.jobs j SET state = job.state, version = j.version + 1 WHERE j.id = next;
      PERFORM $schema.enter_lines(job);
      PERFORM $schema.tally(at, job.queue, 0, job.state);
    END IF;
    IF wake THEN PERFORM $schema.wake_for(at, job, (SELECT q.name FROM $schema.queues q WHERE q.id = job.queue)); END IF;
  END LOOP;
  lives := s.jobs <> 0 OR s.token <> 0 OR s.stop <> 0;
  IF NOT lives AND s.state IS NULL THEN
    DELETE FROM $schema.sessions u WHERE u.id = s.id;
    RETURN;
  END IF;
  UPDATE $schema.sessions u SET turn = s.turn, first = s.first, jobs = s.jobs, changed_at = at, state = s.state,
      state_bytes = coalesce(octet_length(s.state), 0), prune_at = CASE WHEN lives THEN 0 ELSE at +
        (SELECT t.value FROM $schema.settings t WHERE t.name = 'retention_dead') END
    WHERE u.id = s.id;
END $$;

INSERT INTO $schema.settings (name, value) VALUES ('retention_dead', 2592000000000) ON CONFLICT (name) DO NOTHING;

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
        correlation_id, headers, args, session)
      VALUES (job.id, job.state, job.flags, job.priority, 0, 20, 1, 0, 0, 0, 0, at, 0, 0, 0, at, 900000000, 0, job.queue,
        job.kind, 20, coalesce(ended.correlation_id, ended.id::text), ended.headers, format('%s,"data":%s}', told, next.data),
        job.session);
    PERFORM $schema.enter_lines(job);
    PERFORM $schema.tally(at, job.queue, NULL, job.state);
    IF wake THEN PERFORM $schema.wake_for(at, job, next.queue); END IF;
  END LOOP;
END $$;

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
    new.flags := (old.flags & ~160) | CASE WHEN wanted.reply_to IS NULL THEN 0 ELSE 32 END
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

-- With more parameters they are other functions: whoever might call the old ones may call these.
SELECT set_config('mainspring.granted', coalesce((
  SELECT json_agg(json_build_object('name', p.proname, 'to', CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE
                    quote_ident(pg_get_userbyid(a.grantee)) END, 'passes_on', a.is_grantable))
    FROM pg_proc p, aclexplode(p.proacl) AS a
    WHERE p.pronamespace = '$schema'::regnamespace AND p.proname IN ('enqueue', 'complete') AND a.grantee <> p.proowner
  )::text, '[]'), true);
DROP FUNCTION $schema.enqueue;
DROP FUNCTION $schema.complete;

-- Queues a job when the caller's transaction commits; returns its id, or that of the job with the same unique key. NULL is
-- as if not given, but for `timeout`, where it means none. Without `wake` no node is told: one finds the job within 5 seconds.
CREATE FUNCTION $schema.enqueue(
  queue text, kind text, args anycompatible DEFAULT '{}'::text, priority integer DEFAULT 5, run_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL, max_attempts integer DEFAULT 20, unique_key text DEFAULT NULL, unique_for interval DEFAULT NULL,
  on_conflict text DEFAULT 'keep', timeout interval DEFAULT '15 min', expires_in interval DEFAULT NULL,
  tags text[] DEFAULT NULL, headers jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, reply_to text DEFAULT NULL,
  wake boolean DEFAULT true, session text DEFAULT NULL, session_on_dead text DEFAULT 'skip', reply_session text DEFAULT NULL
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
  job.flags := CASE WHEN unique_key IS NULL THEN 0 ELSE 4 END | CASE WHEN job.reply_to IS NULL THEN 0 ELSE 32 END
    | CASE WHEN job.reply_session IS NULL THEN 0 ELSE 128 END
    | CASE WHEN job.session IS NULL THEN 0 WHEN session_on_dead = 'block' THEN 256 WHEN session_on_dead = 'park' THEN 512
           ELSE 0 END;
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
      correlation_id, reply_to, tags, headers, args, session, reply_session)
    VALUES (job.id, job.state, job.flags, job.priority, 0, job.max_attempts, 1, 0, 0, 0, 0, job.run_at, 0, 0, job.expires_at,
      at, job.timeout, 0, job.queue, job.kind, job.max_attempts, job.unique_key, job.correlation_id, job.reply_to, job.tags,
      job.headers, job.args, job.session, job.reply_session);
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
-- 'not_found'. `session_state` is that of its session from then on, JSON; '' = none, NULL = as it is.
CREATE FUNCTION $schema.complete(id bigint, token bigint, result anycompatible DEFAULT NULL::text, wake boolean DEFAULT true,
                                 session_state text DEFAULT NULL)
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

REVOKE ALL ON FUNCTION $schema.check_session, $schema.lock_session, $schema.drop_empty_session, $schema.enter_session,
  $schema.settle_session, $schema.enqueue, $schema.complete FROM PUBLIC;

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
