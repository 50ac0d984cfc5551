-- Schema 24 of the shared store: a unique key outlives its job until its window is over. $schema is its name.
--
-- uniques.gone   the pruned job that has the key; it says something only as long as it is `id`, for programs that do not know of it
--                give the key to another job and leave it. Such a row goes when `until` has come.
-- uniques.ended  the state in which that one ended.
-- The index has no `id`, so that a key without a window is taken as before: by an update that stays in its page.
-- A program that knows only schema 23 removes the key with its job, and takes one whose job is gone for free.

ALTER TABLE $schema.uniques ADD COLUMN gone bigint, ADD COLUMN ended smallint;
CREATE INDEX uniques_gone ON $schema.uniques (until) WHERE gone IS NOT NULL;

-- As before; a window is bounded, as that of nodes.
CREATE OR REPLACE FUNCTION $schema.duration_us(field text, value interval, zero boolean) RETURNS bigint LANGUAGE plpgsql AS $$
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

-- As before; a job that is gone has its key until its window is over. Who waits for the row of a key may find that it has been
-- removed: then it is made.
CREATE OR REPLACE FUNCTION $schema.holder_of_key(at bigint, wanted $schema.jobs, on_conflict text) RETURNS $schema.jobs
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
    IF held.gone = held.id AND at < held.until THEN
      old.id := held.id; old.state := held.ended;
      RETURN old;
    END IF;
    UPDATE $schema.uniques u SET gone = NULL, ended = NULL
      WHERE u.queue = held.queue AND u.key = held.key AND u.gone IS NOT NULL;
    RETURN NULL;
  END IF;
  IF old.state IN (4, 6, 7) AND at >= held.until THEN RETURN NULL; END IF;
  IF old.state IN (3, 4, 6, 7) OR old.deferred OR old.quarantined IS NOT NULL OR on_conflict = 'keep' THEN RETURN old; END IF;
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
