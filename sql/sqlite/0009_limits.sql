-- Schema 9: limits of queues.
--
-- queues.limits    what was asked for, JSON; NULL = none.
-- queues.meter     what has begun under the rate (RateMeter); NULL = nothing.
-- queues.opens_at  closed by the rate until then, in microseconds since 1970; NULL = it is not.

ALTER TABLE queues ADD COLUMN limits TEXT;
ALTER TABLE queues ADD COLUMN meter TEXT;
ALTER TABLE queues ADD COLUMN opens_at INTEGER;
