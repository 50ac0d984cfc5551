-- Schema 4: where this store came from, and where it went.
--
-- what   self     this store: its number, random, so that a copy that was broken off finds the store that it is of
--        copying  this is the unfinished copy of another store: nobody may serve it
--        copied   this was copied from another store
--        moved    this store goes on elsewhere: nobody may serve it any more
-- Times are microseconds since 1970 in UTC.

CREATE TABLE moves (
  what TEXT PRIMARY KEY CHECK (what IN ('self', 'copying', 'copied', 'moved')),
  store TEXT NOT NULL,                  -- the number of that store
  place TEXT NOT NULL,                  -- a directory, or a URL without its password; '' for self
  at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO moves (what, store, place, at) VALUES ('self', lower(hex(randomblob(16))), '', 0);
