// The laws of the store as queries.
#pragma once

#include <span>
#include <string_view>

namespace mainspring::pg {

// A law as a query that counts what breaks it.
struct Law {
  std::string_view what;
  std::string_view sql;
};
std::span<const Law> laws();

// Queue, state (8 = expired), what the counters say, what there is; where the two are different.
extern const std::string_view kRecount;
// Records of the audit with seq > $1, in order, at most $2.
extern const std::string_view kAuditPageSql;
// For this transaction: no limit that is meant for short statements, and room to join in memory.
extern const std::string_view kVerifySettings;

}  // namespace mainspring::pg
