// SQL texts of the statements on tokens and the audit.
#include "store_postgres/access_statements.h"

namespace mainspring::pg {

AccessStatements::AccessStatements(std::string_view s)
    : lock_tokens(s, "SELECT version FROM $schema.versions WHERE what = 'tokens' FOR UPDATE"),
      select_tokens(s,
                    "SELECT name, digest, scopes, rate, created_at, created_by, expires_at, "
                    "revoked_at FROM $schema.tokens"),
      tokens_version(s, "SELECT version FROM $schema.versions WHERE what = 'tokens'"),
      upsert_token(s,
                   "INSERT INTO $schema.tokens (name, digest, scopes, rate, created_at, "
                   "created_by, expires_at, revoked_at) VALUES ($1, $2, $3, $4::bigint, $5, $6, "
                   "$7, $8) ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, scopes = "
                   "excluded.scopes, rate = excluded.rate, created_at = excluded.created_at, "
                   "created_by = excluded.created_by, expires_at = excluded.expires_at, "
                   "revoked_at = excluded.revoked_at"),
      delete_token(s, "DELETE FROM $schema.tokens WHERE name = $1"),
      lock_chain(s, "SELECT 1 FROM $schema.audit_marks WHERE id = 1 FOR UPDATE"),
      chain_ends(s,
                 "SELECT id, seq, hash, (SELECT coalesce(max(seq), 0) FROM $schema.audit) FROM "
                 "$schema.audit_marks ORDER BY id"),
      insert_audit(s,
                   "INSERT INTO $schema.audit (seq, at, who, origin, action, object, before, "
                   "after, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
      update_mark(s, "UPDATE $schema.audit_marks SET seq = $2, hash = $3 WHERE id = $1::bigint"),
      first_audit(s,
                  "SELECT seq, at, hash FROM $schema.audit WHERE seq > $1 ORDER BY seq LIMIT $2"),
      prune_audit(s, "DELETE FROM $schema.audit WHERE seq <= $1"),
      queue_image(s,
                  "SELECT paused, retention_completed, retention_dead, coalesce(limits, settings), "
                  "meter, opens_at, keys_open_at, pause FROM $schema.queues WHERE name = $1"),
      schedule_image(s,
                     "SELECT definition, paused, version, timeout_override FROM "
                     "$schema.schedules WHERE name = $1"),
      edited_body(s, "SELECT tags FROM $schema.jobs WHERE id = $1") {}

}  // namespace mainspring::pg
