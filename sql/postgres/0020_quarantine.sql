-- Schema 20 of the shared store: jobs that take their workers down are set apart. $schema is its name.
--
-- jobs.lost         so many attempts were lost one behind the other; NULL = none. Completions without a look at the row leave it.
-- jobs.quarantined  of a job that has not ended: since when it is in quarantine. In state 5 it waits there, and has no row in
--                   `due`; in any other it is released. NULL = it is not.
-- quarantine        those jobs, and their queues. A row is void, and removed when it is met, if its job has ended.
-- queues.settings   as queues.limits, which is NULL then: those of which no claim needs to know.
-- A program that knows only schema 19 would release them all, or none: the first job goes in there when no such node lives, and
-- then none is let in (meta.compatible).

ALTER TABLE $schema.jobs ADD COLUMN lost smallint, ADD COLUMN quarantined bigint;
ALTER TABLE $schema.queues ADD COLUMN settings text;

CREATE TABLE $schema.quarantine (
  id bigint PRIMARY KEY,
  queue integer NOT NULL
);

-- As before; one that is in quarantine stays as it is, as one that is deferred.
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
