-- Schema 17: jobs that take their workers down are set apart.
--
-- jobs.flags   bits 2097152 to 536870912, a number: so many attempts were lost one behind the other.
--              Bit 1073741824: it is in quarantine. In state 5 it waits there, and has no row in `due`; in any other it is released.
-- quarantine   those jobs, and since when.
-- The setting quarantine_after stands in queues.limits.

CREATE TABLE quarantine (
  id INTEGER PRIMARY KEY,
  since INTEGER NOT NULL
);
