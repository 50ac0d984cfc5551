-- The PostgreSQL store: the index of searchable paths. $schema is the name of the schema. This file is part of version 1, after
-- 0001_schema_functions.sql.

-- The key of the value at a path of args, as in src/api/search_keys.h. NULL = there is no string, number or boolean.
-- '?' = this server cannot read the args: a search reads them itself.
CREATE FUNCTION $schema.search_value(args text, path text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  value json;
  raw bytea;
  part text[];
  digits text;
  kept text;
  exponent bigint;
BEGIN
  value := args::json #> string_to_array(path, '.');
  CASE json_typeof(value)
    WHEN 'string' THEN
      raw := convert_to(value #>> '{}', 'UTF8');
      IF octet_length(raw) <= 200 THEN RETURN '\x73'::bytea || raw; END IF;
      RETURN '\x53'::bytea || substring(raw FROM 1 FOR 200) || sha256(raw);
    WHEN 'boolean' THEN
      RETURN CASE value::text WHEN 'true' THEN '\x74'::bytea ELSE '\x66'::bytea END;
    WHEN 'number' THEN
      part := regexp_match(value::text, '^(-?)([0-9]+)(?:[.]([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?$');
      digits := ltrim(part[2] || coalesce(part[3], ''), '0');
      IF digits = '' THEN RETURN '\x6e30'::bytea; END IF;
      IF length(part[5]) > 9 THEN RETURN '\x6e'::bytea || convert_to(value::text, 'UTF8'); END IF;
      kept := rtrim(digits, '0');
      exponent := (coalesce(part[4], '') || coalesce(nullif(part[5], ''), '0'))::bigint - length(coalesce(part[3], ''))
                  + length(digits) - length(kept);
      RETURN '\x6e'::bytea || convert_to(part[1] || kept || 'e' || exponent, 'UTF8');
    ELSE
      RETURN NULL;
  END CASE;
EXCEPTION WHEN OTHERS THEN
  RETURN '\x3f'::bytea;
END $$;

-- Of the triggers that step_search() creates. Their arguments are pairs: the id of a path and the path. They are not read from
-- search_paths, because a caller of enqueue() may have an older snapshot.
CREATE FUNCTION $schema.index_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key bytea;
BEGIN
  FOR i IN 0 .. TG_NARGS - 1 BY 2 LOOP
    IF TG_OP <> 'INSERT' THEN
      DELETE FROM $schema.search_values v WHERE v.path = TG_ARGV[i]::integer AND v.job = OLD.id
        AND v.value = $schema.search_value(OLD.args, TG_ARGV[i + 1]);
    END IF;
    IF TG_OP <> 'DELETE' THEN
      key := $schema.search_value(NEW.args, TG_ARGV[i + 1]);
      IF key IS NOT NULL THEN
        INSERT INTO $schema.search_values (path, value, job) VALUES (TG_ARGV[i]::integer, key, NEW.id) ON CONFLICT DO NOTHING;
      END IF;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Makes the triggers what search_paths says. It waits for writers no longer than a moment: false = they are busy, try again.
-- The lock makes sure that every job of an earlier transaction is visible, and every later one meets the trigger.
CREATE FUNCTION $schema.make_search_triggers() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  of_queue integer;
  paths text;
BEGIN
  PERFORM set_config('lock_timeout', '100ms', true);
  LOCK TABLE $schema.jobs IN SHARE ROW EXCLUSIVE MODE;
  FOR of_queue, paths IN
    SELECT p.queue, string_agg(format('%L, %L', p.id, p.path), ', ' ORDER BY p.id) FILTER (WHERE p.stage < 2)
    FROM $schema.search_paths p GROUP BY p.queue HAVING bool_or(p.stage IN (0, 2))
  LOOP
    IF paths IS NULL THEN
      -- They are not there if the paths were removed before they were made.
      IF EXISTS (SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = '$schema.jobs'::regclass
                 AND tgname = format('search_put_%s', of_queue)) THEN
        EXECUTE format('DROP TRIGGER search_put_%s ON $schema.jobs', of_queue);
        EXECUTE format('DROP TRIGGER search_drop_%s ON $schema.jobs', of_queue);
      END IF;
    ELSE
      EXECUTE format('CREATE OR REPLACE TRIGGER search_put_%s AFTER INSERT OR UPDATE OF args ON $schema.jobs FOR EACH ROW '
                     'WHEN (NEW.queue = %s) EXECUTE FUNCTION $schema.index_job(%s)', of_queue, of_queue, paths);
      EXECUTE format('CREATE OR REPLACE TRIGGER search_drop_%s AFTER DELETE ON $schema.jobs FOR EACH ROW '
                     'WHEN (OLD.queue = %s) EXECUTE FUNCTION $schema.index_job(%s)', of_queue, of_queue, paths);
    END IF;
  END LOOP;
  UPDATE $schema.search_paths SET stage = 1, above = (SELECT coalesce(max(id), 0) + 1 FROM $schema.jobs) WHERE stage = 0;
  UPDATE $schema.search_paths SET stage = 3 WHERE stage = 2;
  PERFORM set_config('lock_timeout', '0', true);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- One bounded step of what is to be done for searchable paths. `at` is the time of the caller, `most` a number of jobs. Returns
-- whether another step can follow at once. It runs as the owner of the tables, because nodes may have no right to create triggers.
CREATE FUNCTION $schema.step_search(at bigint, most integer) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  p $schema.search_paths;
  low bigint;
  seen integer;
  mine integer;
  gone integer;
  held bigint[];
BEGIN
  SELECT * INTO p FROM $schema.search_paths WHERE next_at <= at ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN false; END IF;
  IF p.stage IN (0, 2) THEN
    IF $schema.make_search_triggers() THEN RETURN true; END IF;
    UPDATE $schema.search_paths SET next_at = at + 1000000 WHERE stage IN (0, 2);
    RETURN false;
  END IF;
  IF p.stage = 3 THEN
    DELETE FROM $schema.search_values v USING (SELECT path, value, job FROM $schema.search_values WHERE path = p.id LIMIT most) d
      WHERE v.path = d.path AND v.value = d.value AND v.job = d.job;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < most THEN
      DELETE FROM $schema.search_paths WHERE id = p.id;
    END IF;
    RETURN true;
  END IF;
  SELECT coalesce(min(id), 0), count(*), count(*) FILTER (WHERE queue = p.queue) INTO low, seen, mine
    FROM (SELECT id, queue FROM $schema.jobs WHERE id < p.above ORDER BY id DESC LIMIT most) j;
  -- Locked rows are being changed: they are added when their writer is done.
  SELECT array_agg(id) INTO held FROM (
    SELECT id FROM $schema.jobs WHERE id >= low AND id < p.above AND queue = p.queue FOR SHARE SKIP LOCKED) j;
  IF coalesce(cardinality(held), 0) < mine THEN
    UPDATE $schema.search_paths SET next_at = at + 100000 WHERE id = p.id;
    RETURN false;
  END IF;
  INSERT INTO $schema.search_values (path, value, job)
    SELECT p.id, v.value, j.id FROM $schema.jobs j CROSS JOIN LATERAL (SELECT $schema.search_value(j.args, p.path) AS value) v
    WHERE j.id = ANY (held) AND v.value IS NOT NULL ON CONFLICT DO NOTHING;
  UPDATE $schema.search_paths SET above = CASE WHEN seen < most THEN 0 ELSE low END,
    next_at = CASE WHEN seen < most THEN NULL ELSE at END WHERE id = p.id;
  RETURN EXISTS (SELECT 1 FROM $schema.search_paths WHERE next_at <= at);
END $$;

REVOKE ALL ON FUNCTION $schema.search_value, $schema.index_job, $schema.make_search_triggers, $schema.step_search FROM PUBLIC;
