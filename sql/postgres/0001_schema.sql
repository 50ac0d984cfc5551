-- Schema 1 of the shared store. $schema is its name.
--
-- jobs     one authoritative row per job. What changes stands first and the payload last, no column that changes is
--          indexed, and pages keep room: so a claim and a finish rewrite the row within its page, log only what changed,
--          and touch no index.
-- ready    the line of available jobs: a row comes and goes with the state. Apart from jobs, because its dead entries are
--          what a claim would walk past; the store remembers where the line begins.
-- due      when scheduled and retryable jobs become available.
-- tallies  what each batch changed of the counters, appended; their sums are the counters. From time to time old rows are
--          added up into one. No row is updated: a transaction held open by somebody would make that slow.
--          (node, batch) says which batch it was: a commit whose answer was lost is looked up here.
-- Times are microseconds since 1970 in UTC; "never" is 9223372036854775807. Leases end on the time of this database.

CREATE TABLE $schema.meta (
  version bigint NOT NULL,              -- of the schema
  compatible bigint NOT NULL,           -- programs that know schemas up to this one may use it too
  one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

CREATE SEQUENCE $schema.job_ids;
CREATE SEQUENCE $schema.tokens_given;   -- fencing tokens, of jobs and of leases by name
CREATE SEQUENCE $schema.node_numbers;
CREATE SEQUENCE $schema.row_numbers;    -- of rows in finished and leased

CREATE TABLE $schema.queues (
  id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE,
  paused boolean NOT NULL DEFAULT false,
  retention_completed bigint,           -- NULL = the store's default
  retention_dead bigint
);

CREATE TABLE $schema.kinds (
  id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE $schema.jobs (
  state smallint NOT NULL,              -- 0 waiting 1 scheduled 2 available 3 running 4 completed 5 retryable 6 cancelled 7 dead
  flags smallint NOT NULL,              -- 1 has a row in extras, 2 expired, 4 has a row in uniques, 8 has rows in errors, 16 cancel requested
  priority smallint NOT NULL,
  attempt integer NOT NULL,
  max_attempts integer NOT NULL,
  version bigint NOT NULL,
  token bigint NOT NULL,                -- of the last claim; 0 = never claimed
  lease_until bigint NOT NULL,          -- running: when the lease ends
  lease bigint NOT NULL,                -- the longest that this holder asked for
  claimed_at bigint NOT NULL,           -- time limits are measured from here
  run_at bigint NOT NULL,
  started_at bigint NOT NULL,           -- 0 = never
  finished_at bigint NOT NULL,          -- 0 = not yet
  expires_at bigint NOT NULL,           -- 0 = does not
  worker text,                          -- running: its holder
  id bigint PRIMARY KEY,
  created_at bigint NOT NULL,
  timeout bigint NOT NULL,
  schedule bigint NOT NULL,             -- that made the job; 0 = none did
  queue integer NOT NULL,
  kind integer NOT NULL,
  budget integer NOT NULL,              -- max_attempts as enqueued
  unique_key text,
  correlation_id text,
  reply_to text,
  tags text[],
  headers text,
  args text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.ready (
  queue integer NOT NULL,
  priority smallint NOT NULL,
  kind integer NOT NULL,
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  expires_at bigint NOT NULL,           -- not to be started from then on; 0 = may always
  PRIMARY KEY (queue, priority, run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.due (
  run_at bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (run_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.expiring (
  expires_at bigint NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (expires_at, id)
);

-- When somebody should look whether leases have ended: one row per claim. Renewals do not move it; whoever looks does, for
-- those that still run.
CREATE TABLE $schema.leased (
  look_at bigint NOT NULL,
  seq bigint NOT NULL,
  node bigint NOT NULL,                 -- that gave them
  ids bigint[] NOT NULL,
  PRIMARY KEY (look_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Terminal jobs by the time of their removal: one row per batch and retention.
CREATE TABLE $schema.finished (
  prune_at bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,                   -- finished_at of all of them: a job that was retried since has another
  ids bigint[] NOT NULL,
  PRIMARY KEY (prune_at, seq)
);

-- Ids hardly compress, and trying costs more than the rest of such a row.
ALTER TABLE $schema.leased ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE $schema.finished ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE $schema.dead_letter (id bigint PRIMARY KEY);

CREATE TABLE $schema.extras (
  id bigint PRIMARY KEY,
  progress_value double precision,
  progress_text text,
  cancel_reason text,                   -- of a wish to cancel
  reason text,
  description text,
  result text,
  checkpoint text
) WITH (fillfactor = 80);

CREATE TABLE $schema.errors (
  job bigint NOT NULL,
  seq bigint NOT NULL,                  -- the token of the attempt
  attempt integer NOT NULL,
  at bigint NOT NULL,
  ran_for bigint NOT NULL,
  worker text NOT NULL,
  message text NOT NULL,
  PRIMARY KEY (job, seq)
);

CREATE TABLE $schema.uniques (
  queue integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  until bigint NOT NULL,                -- the end of its window; 0 = none
  PRIMARY KEY (queue, key)
);

CREATE TABLE $schema.idempotency (
  key text COLLATE "C" PRIMARY KEY,
  expires_at bigint NOT NULL,
  fingerprint text NOT NULL,
  ids bigint[] NOT NULL
);
CREATE INDEX idempotency_expires ON $schema.idempotency (expires_at);

CREATE TABLE $schema.tallies (
  node bigint NOT NULL,
  batch bigint NOT NULL,
  at bigint NOT NULL,
  queue integer NOT NULL,               -- 0 = none: the row only says that the batch was committed
  enqueued bigint NOT NULL DEFAULT 0,
  pruned bigint NOT NULL DEFAULT 0,
  expired bigint NOT NULL DEFAULT 0,
  waiting bigint NOT NULL DEFAULT 0,
  scheduled bigint NOT NULL DEFAULT 0,
  available bigint NOT NULL DEFAULT 0,
  running bigint NOT NULL DEFAULT 0,
  completed bigint NOT NULL DEFAULT 0,
  retryable bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  dead bigint NOT NULL DEFAULT 0,
  ids bigint[]                          -- of new jobs, where the batch was nothing else: its answer, if that is lost
);

ALTER TABLE $schema.tallies ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE $schema.named_leases (
  name text COLLATE "C" PRIMARY KEY,
  state smallint NOT NULL,              -- 0 held, 1 released, 2 expired
  token bigint NOT NULL,                -- of the present or last holder
  ttl bigint NOT NULL,                  -- as it was last asked for
  kept bigint NOT NULL,                 -- the longest that this holder asked for
  ends bigint NOT NULL,                 -- held: when it expires; released: when it is forgotten
  since bigint NOT NULL,
  holder text NOT NULL,
  value text
) WITH (fillfactor = 50);

CREATE TABLE $schema.schedules (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL UNIQUE,
  version bigint NOT NULL,
  definition text NOT NULL,             -- JSON, as in PUT /v1/schedules/NAME
  queue text NOT NULL,                  -- of its jobs
  paused boolean NOT NULL,
  paused_reason text,
  next bigint NOT NULL,                 -- nominal time of the first undecided tick
  next_fire bigint NOT NULL,            -- the same with the jitter
  skip_before bigint NOT NULL,
  skip_reason text,
  remaining bigint,                     -- NULL = no limit
  fired bigint NOT NULL,
  last_fired bigint,
  last_job bigint NOT NULL,
  timeout_override bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  next_seq bigint NOT NULL              -- of its next row in the ledger
) WITH (fillfactor = 70);

-- Names that had a schedule, and the last version: none is given twice.
CREATE TABLE $schema.removed_schedules (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
);

CREATE TABLE $schema.ledger (
  schedule bigint NOT NULL,
  seq bigint NOT NULL,
  version bigint NOT NULL,
  nominal bigint NOT NULL,
  until bigint,                         -- the last tick, where the row stands for several
  count bigint NOT NULL,                -- 0 = too many to count
  source smallint NOT NULL,             -- 0 schedule 1 trigger 2 backfill 3 wake
  state smallint NOT NULL,              -- 0 fired 1 skipped
  past_due boolean NOT NULL,
  job bigint,                           -- NULL = none
  reason text,
  note text,
  decided_at bigint NOT NULL,
  PRIMARY KEY (schedule, seq)
);
-- A tick never fires twice.
CREATE UNIQUE INDEX ledger_fired ON $schema.ledger (schedule, nominal, version) WHERE state = 0 AND source IN (0, 2);

-- The jobs of schedules that have not ended.
CREATE TABLE $schema.schedule_jobs (
  job bigint PRIMARY KEY,
  schedule bigint NOT NULL,
  waits boolean NOT NULL                -- for the end of the others
);
CREATE INDEX schedule_jobs_of ON $schema.schedule_jobs (schedule, job);
CREATE INDEX schedule_jobs_waiting ON $schema.schedule_jobs (schedule, job) WHERE waits;

CREATE TABLE $schema.tokens (
  name text COLLATE "C" PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,         -- SHA-256 of what a caller presents; that is not here
  scopes text NOT NULL,                 -- parted by blanks
  rate integer NOT NULL,                -- requests per second; 0 = the server's default
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint
);

CREATE TABLE $schema.audit (
  seq bigint PRIMARY KEY,
  at bigint NOT NULL,
  who text NOT NULL,
  origin text NOT NULL,
  action text NOT NULL,
  object text NOT NULL,
  before text,                          -- JSON; NULL = there was nothing
  after text,
  hash bytea NOT NULL
);

-- 0: the newest record that was pruned; 1: the newest record.
CREATE TABLE $schema.audit_marks (
  id integer PRIMARY KEY CHECK (id IN (0, 1)),
  seq bigint NOT NULL,
  hash bytea NOT NULL
) WITH (fillfactor = 50);
INSERT INTO $schema.audit_marks (id, seq, hash)
  VALUES (0, 0, decode(repeat('00', 32), 'hex')), (1, 0, decode(repeat('00', 32), 'hex'));

-- What nodes keep copies of, with a number that every change of it raises.
CREATE TABLE $schema.versions (
  what text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO $schema.versions (what, version) VALUES ('queues', 1), ('schedules', 1), ('tokens', 1);

CREATE TABLE $schema.nodes (
  id bigint PRIMARY KEY,                -- from node_numbers
  incarnation text NOT NULL,
  address text NOT NULL,                -- of its bell; '' = none
  program text NOT NULL,                -- the version it runs
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  info text NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- Nodes that lost the answer to a commit. Of their batches those of an earlier session do not commit any more: whoever looks
-- for such a batch and does not find it may make it again, wherever the first one still is.
CREATE TABLE $schema.given_up (
  node bigint PRIMARY KEY,
  session bigint NOT NULL,              -- the first that may commit
  at bigint NOT NULL
);

CREATE TABLE $schema.secrets (
  name text PRIMARY KEY,                -- 'bell': what nodes prove to each other that they share this store
  secret bytea NOT NULL
);

CREATE FUNCTION $schema.now_us() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Called once by each batch before its commit. The lock is held until the commit has ended. It is taken first: if the batch is
-- given up behind this look, whoever gave it up waits for the lock.
CREATE FUNCTION $schema.hold_batch(of_node bigint, batch bigint, of_session bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock((of_node << 40) | batch);
  IF EXISTS (SELECT 1 FROM $schema.given_up WHERE node = of_node AND session > of_session) THEN
    RAISE EXCEPTION 'the batch was given up' USING ERRCODE = '40003';
  END IF;
END $$;

CREATE FUNCTION $schema.audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    RAISE EXCEPTION 'audit records are never changed';
  ELSIF TG_OP = 'INSERT' THEN
    IF NEW.seq <= (SELECT seq FROM $schema.audit_marks WHERE id = 1) THEN
      RAISE EXCEPTION 'audit records are only appended';
    END IF;
    RETURN NEW;
  ELSIF OLD.seq > (SELECT seq FROM $schema.audit_marks WHERE id = 0) THEN
    RAISE EXCEPTION 'of audit records only the oldest are removed, when they are pruned';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER audit_append_only BEFORE INSERT OR UPDATE OR DELETE ON $schema.audit
  FOR EACH ROW EXECUTE FUNCTION $schema.audit_append_only();

CREATE FUNCTION $schema.audit_marks_advance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.id <> OLD.id OR NEW.seq < OLD.seq THEN
    RAISE EXCEPTION 'the marks of the audit only advance';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER audit_marks_advance BEFORE UPDATE OR DELETE ON $schema.audit_marks
  FOR EACH ROW EXECUTE FUNCTION $schema.audit_marks_advance();

-- For people.
CREATE VIEW $schema.job AS
  SELECT j.id, q.name AS queue, k.name AS kind,
         (ARRAY['waiting', 'scheduled', 'available', 'running', 'completed', 'retryable', 'cancelled', 'dead'])[j.state + 1] AS state,
         j.priority, to_timestamp(j.run_at / 1e6) AS run_at, j.attempt, j.max_attempts, j.token, j.worker,
         to_timestamp(j.created_at / 1e6) AS created_at, to_timestamp(nullif(j.started_at, 0) / 1e6) AS started_at,
         to_timestamp(nullif(j.finished_at, 0) / 1e6) AS finished_at, j.args, j.tags, e.result, e.reason, e.description
  FROM $schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id = j.kind
       LEFT JOIN $schema.extras e ON e.id = j.id;

CREATE VIEW $schema.queue_counts AS
  SELECT q.name, q.paused, sum(t.enqueued) AS enqueued, sum(t.pruned) AS pruned, sum(t.expired) AS expired,
         sum(t.waiting) AS waiting, sum(t.scheduled) AS scheduled, sum(t.available) AS available,
         sum(t.running) AS running, sum(t.completed) AS completed, sum(t.retryable) AS retryable,
         sum(t.cancelled) AS cancelled, sum(t.dead) AS dead
  FROM $schema.queues q LEFT JOIN $schema.tallies t ON t.queue = q.id GROUP BY q.name, q.paused;
