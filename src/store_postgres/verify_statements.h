// The invariants of the store as queries.
#pragma once

#include <span>
#include <string_view>

namespace mainspring::pg {

// An invariant as a query that counts its violations.
struct Invariant {
  std::string_view what;
  std::string_view sql;
};
std::span<const Invariant> invariants();

// Queue, state (8 = expired), the counter, the number of rows; only rows where the two differ.
extern const std::string_view kRecount;
// Audit records with seq > $1, in order, at most $2.
extern const std::string_view kAuditPageSql;
// For this transaction: no limits meant for short statements, and memory for joins.
extern const std::string_view kVerifySettings;

}  // namespace mainspring::pg
