-- Schema 28: pages of `jobs` keep room for all three versions of a row.
--
-- With half of a page free, the third one (completed) finds room only once the first one is removed, and that waits for every
-- snapshot that may see it. Where two nodes work, or somebody keeps a transaction open, that comes too late: the row then went
-- to another page, with an entry in the index and its log. Holds for pages that are written from now on.
ALTER TABLE $schema.jobs SET (fillfactor = 33);
