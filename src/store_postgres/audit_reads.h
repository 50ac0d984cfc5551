// Reads rows of the audit, for pages and for verify().
#pragma once

#include "store/access_operations.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

// Columns: seq, at, who, origin, action, object, before, after, hash.
AuditRecord read_audit_record(const Rows& rows, int row);
// Both rows of audit_marks: id, seq, hash, in order of id. Throws PgError if one is missing.
AuditState read_audit_marks(const Rows& rows);

}  // namespace mainspring::pg
