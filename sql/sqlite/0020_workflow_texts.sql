-- Schema 20: what is written once of a workflow has a table of its own. Definitions of steps are large: between
-- the rows that each end of a step changes they made it write many pages of the log.

CREATE TABLE workflow_texts (
  workflow INTEGER NOT NULL,
  kind INTEGER NOT NULL,                -- of those of workflow_rows 0 text, 1 spec, 3 result, 4 item
  number INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (workflow, kind, number)
) WITHOUT ROWID;
INSERT INTO workflow_texts SELECT * FROM workflow_rows WHERE kind IN (0, 1, 3, 4);
DELETE FROM workflow_rows WHERE kind IN (0, 1, 3, 4);
