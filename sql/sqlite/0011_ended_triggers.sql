-- Schema 11: triggers on the ends of jobs.
--
-- trigger_events.reason  why an event made no job: its row has job 0; NULL = it made one.
-- jobs.flags             bits 65536 to 1048576, five of them: how many triggers on ends of jobs fired one behind the other up to
--                        this job.

ALTER TABLE trigger_events ADD COLUMN reason TEXT;
