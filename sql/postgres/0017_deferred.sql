-- Schema 17 of the shared store: jobs that are put aside. $schema is its name.
--
-- jobs.deferred  it waits, state 0, for a claim that names it or an operator; extras.reason is why. NULL = it does not.
-- deferred       those jobs, by id. Who writes a row has locked its job.
-- A program that knows only schema 16 takes such a job for one that waits for its schedule: the first one waits until no such
-- node lives, and then lets none in (meta.compatible).

ALTER TABLE $schema.jobs ADD COLUMN deferred boolean;

CREATE TABLE $schema.deferred (id bigint PRIMARY KEY);

-- As before; one that is deferred stays as it is.
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
