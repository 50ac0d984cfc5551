-- Schema 15: breakers, which the limits of queues name.
--
-- breakers.settings  JSON.
-- breakers.state     what it has seen (BreakerMeter); NULL = closed, and nothing has failed.

CREATE TABLE breakers (
  name TEXT PRIMARY KEY,
  settings TEXT NOT NULL,
  state TEXT
) WITHOUT ROWID;
