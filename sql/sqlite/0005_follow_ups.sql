-- Schema 5: jobs that are made when another one ends.
--
-- bodies.follow_ups  JSON, as the member "then" of POST /v1/jobs; NULL = none. Bit 32 of jobs.flags says that there are any, or
--                    a reply_to: that something is made when the job ends.

ALTER TABLE bodies ADD COLUMN follow_ups TEXT;
