-- Schema 8: triggers, jobs that are made by events from outside.
--
-- triggers        one row each; definition and state are JSON, secret the digest of a token or the key of signatures.
-- trigger_events  the ledger: what fired, by number and by the event's id.
-- Times are microseconds since 1970 in UTC.

CREATE TABLE triggers (
  name TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  state TEXT NOT NULL,
  secret TEXT                           -- NULL = none
) WITHOUT ROWID;

CREATE TABLE trigger_events (
  name TEXT NOT NULL,                   -- of the trigger
  seq INTEGER NOT NULL,
  event TEXT,                           -- NULL = it had no id
  fired_at INTEGER NOT NULL,
  made_at INTEGER,                      -- NULL = not known
  job INTEGER NOT NULL,
  PRIMARY KEY (name, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX trigger_event_ids ON trigger_events (name, event) WHERE event IS NOT NULL;
