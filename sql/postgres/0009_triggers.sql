-- Schema 9 of the shared store: triggers, jobs that are made by events from outside. $schema is its name.
--
-- triggers        one row each; definition and state are JSON, secret the digest of a token or the key of signatures. Whoever
--                 fires a trigger locks its row first, behind sessions and jobs that the batch names.
-- trigger_events  the ledger: what fired, by number and by the event's id.

CREATE TABLE $schema.triggers (
  name text COLLATE "C" PRIMARY KEY,
  definition text NOT NULL,
  state text NOT NULL,
  secret text                           -- NULL = none
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE $schema.trigger_events (
  name text COLLATE "C" NOT NULL,       -- of the trigger
  seq bigint NOT NULL,
  event text COLLATE "C",               -- NULL = it had no id
  fired_at bigint NOT NULL,
  made_at bigint,                       -- NULL = not known
  job bigint NOT NULL,
  PRIMARY KEY (name, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX trigger_event_ids ON $schema.trigger_events (name, event) WHERE event IS NOT NULL;

-- For CREATE TRIGGER … AFTER INSERT OR UPDATE OR DELETE ON a table FOR EACH ROW EXECUTE FUNCTION enqueue_row('queue', 'kind'):
-- a job for each row that is written, in the writer's transaction. Its args are {"operation", "schema", "table", "row", "old"}.
-- It runs as whoever writes, who needs enqueue() for it: rows become JSON by casts that somebody else may have made.
CREATE FUNCTION $schema.enqueue_row() RETURNS trigger LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_WHEN <> 'AFTER' OR TG_LEVEL <> 'ROW' OR TG_NARGS <> 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('trigger %s on %s: enqueue_row(''queue'', ''kind'') must be called AFTER, FOR EACH ROW, with both', TG_NAME,
                       TG_TABLE_NAME);
  END IF;
  PERFORM $schema.enqueue(queue => TG_ARGV[0], kind => TG_ARGV[1], args => jsonb_build_object(
    'operation', lower(TG_OP), 'schema', TG_TABLE_SCHEMA, 'table', TG_TABLE_NAME,
    'row', CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END,
    'old', CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END));
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION $schema.enqueue_row FROM PUBLIC;
