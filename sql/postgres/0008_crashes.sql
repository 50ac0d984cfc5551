-- Schema 8 of the shared store: what a crash of the server takes. $schema is its name.
--
-- awake  has its row as long as nothing that was answered has been lost. It is unlogged: empty behind a crash, and on a standby
--        that has become the primary. Renewals do not wait for the disk, so the last ones may be gone then: whoever finds it empty
--        puts the row back and lets every lease begin anew, in one transaction, before any lease is taken for ended.

CREATE UNLOGGED TABLE $schema.awake (one boolean PRIMARY KEY DEFAULT true CHECK (one));
INSERT INTO $schema.awake DEFAULT VALUES;
