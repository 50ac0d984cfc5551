-- Schema 3 of the shared store: where it came from, and where it went. $schema is its name.
--
-- what   self     this store: its number, random, so that a copy that was broken off finds the store that it is of
--        copying  this is the unfinished copy of another store: nobody may serve it
--        copied   this was copied from another store
--        moved    this store goes on elsewhere: nobody may serve it any more

CREATE TABLE $schema.moves (
  what text COLLATE "C" PRIMARY KEY CHECK (what IN ('self', 'copying', 'copied', 'moved')),
  store text NOT NULL,                  -- the number of that store
  place text NOT NULL,                  -- a directory, or a URL without its password; '' for self
  at bigint NOT NULL,
  run text NOT NULL DEFAULT ''          -- copying: of two that copy at once the later one goes on
);
INSERT INTO $schema.moves (what, store, place, at) VALUES ('self', replace(gen_random_uuid()::text, '-', ''), '', 0);

-- Of a trigger on tallies, which the move makes: there every durable batch and every function writes, so that a store that
-- was not moved pays nothing.
CREATE FUNCTION $schema.refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS001',
    MESSAGE = (SELECT format('the store has moved to %s', m.place) FROM $schema.moves m WHERE m.what = 'moved');
END $$;
REVOKE ALL ON FUNCTION $schema.refuse_moved() FROM PUBLIC;

-- As in 0002, but that every change writes tallies, also one that leaves the counters as they are: what locks that table, or
-- refuses there, must miss none.
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
  PERFORM $schema.tally(at, new.queue, old.state, new.state);
  RETURN new;
END $$;
