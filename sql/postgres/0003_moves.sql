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
