-- Schema 12: limits per key.
--
-- bodies.limit_key  what the limits per key of its queue count a job under; NULL = it is free of them.
-- jobs.flags        bit 2048: it has a limit_key.

ALTER TABLE bodies ADD COLUMN limit_key TEXT;
