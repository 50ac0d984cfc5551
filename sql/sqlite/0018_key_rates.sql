-- Schema 18: rates per key. They are asked for in queues.limits.
--
-- key_meters  what has begun of a limit key under the rate of its queue (RateMeter); a key of which nothing is known may be missing.
-- A program that knows only schema 15 would begin more than may: it does not open the store.

CREATE TABLE key_meters (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  meter TEXT NOT NULL,
  PRIMARY KEY (queue, key)
) WITHOUT ROWID;
