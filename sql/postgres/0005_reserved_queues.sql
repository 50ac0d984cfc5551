-- Schema 5 of the shared store: queues whose names begin with "mainspring." are the engine's own. What is in them becomes signed
-- requests, so nobody may put jobs there by enqueue(). $schema is its name.

CREATE OR REPLACE FUNCTION $schema.check_name(field text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF name IS NULL OR name COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' THEN
    PERFORM $schema.refuse(field, format('%s "%s": must be 1 to 128 letters, digits or . _ : / -, beginning with a letter or '
                                         'a digit', field, left(name, 64)));
  END IF;
  IF field IN ('queue', 'reply_to') AND starts_with(name, 'mainspring.') THEN
    PERFORM $schema.refuse(field, format('%s "%s": must not begin with mainspring., which is the engine''s', field,
                                         left(name, 64)));
  END IF;
END $$;
