-- Schema 3: tokens, and the record of who changed what.
--
-- tokens       what a caller presents is not here: only its SHA-256.
-- audit        one row per recorded change, appended in the transaction of the change. Each hash covers the one before it.
-- audit_marks  where the chain begins and ends. 0: the newest record that was pruned; 1: the newest record.
-- The triggers keep hands off that mean no harm; the chain shows what others did.
-- Times are microseconds since 1970 in UTC; "never" is 9223372036854775807.

CREATE TABLE tokens (
  name TEXT PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  scopes TEXT NOT NULL,                 -- parted by blanks
  rate INTEGER NOT NULL,                -- requests per second; 0 = the server's default
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  origin TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  before TEXT,                          -- JSON; NULL = there was nothing
  after TEXT,
  hash BLOB NOT NULL
);

CREATE TABLE audit_marks (
  id INTEGER PRIMARY KEY CHECK (id IN (0, 1)),
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL
);
INSERT INTO audit_marks (id, seq, hash) VALUES (0, 0, zeroblob(32)), (1, 0, zeroblob(32));

CREATE TRIGGER audit_appends_only BEFORE INSERT ON audit
  WHEN NEW.seq <= max((SELECT max(seq) FROM audit_marks), (SELECT coalesce(max(seq), 0) FROM audit))
  BEGIN SELECT RAISE(ABORT, 'audit records are only appended'); END;
CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'audit records are never changed'); END;
-- The mark is moved first; then what lies below it may go.
CREATE TRIGGER audit_oldest_go_first BEFORE DELETE ON audit
  WHEN OLD.seq > (SELECT seq FROM audit_marks WHERE id = 0) OR OLD.seq > (SELECT min(seq) FROM audit)
  BEGIN SELECT RAISE(ABORT, 'of audit records only the oldest are removed, when they are pruned'); END;
CREATE TRIGGER audit_marks_advance BEFORE UPDATE ON audit_marks
  WHEN NEW.id <> OLD.id OR NEW.seq < OLD.seq
  BEGIN SELECT RAISE(ABORT, 'the marks of the audit only advance'); END;
CREATE TRIGGER audit_marks_stay BEFORE DELETE ON audit_marks
  BEGIN SELECT RAISE(ABORT, 'the marks of the audit stay'); END;
