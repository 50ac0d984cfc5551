// The schema of the shared store: numbered steps forward, one at a time over all nodes.
#pragma once

#include <cstdint>
#include <string>

#include "store_postgres/connection.h"

namespace mainspring::pg {

// The first schemas that know these: where there are any, no program may join that does not.
inline constexpr std::int64_t kKnowsWorkflows = 7, kKnowsLimits = 10, kKnowsMemos = 11,
                              kKnowsForks = 12, kKnowsSubWorkflows = 13, kKnowsEnds = 14,
                              kKnowsLimitKeys = 15, kKnowsOrder = 16, kKnowsDefer = 17,
                              kKnowsBreakers = 18, kKnowsQuarantine = 20, kKnowsKeyRates = 21,
                              kKnowsCosts = 23, kKnowsParking = 25, kKnowsProgress = 26,
                              kKnowsBundles = 27, kKnowsPacked = 29;
// How long after a node was last seen it is thought to live, in microseconds.
inline constexpr std::int64_t kNodeAlive = 15'000'000;

// The number of the newest schema that this program knows.
std::int64_t newest_schema();
// The oldest schema that programs may know which work with that one.
std::int64_t newest_is_compatible_with();
// What the database has; 0 = the schema is not there. `compatible`: programs that know schemas up
// to that one may use it.
struct SchemaVersion {
  std::int64_t version = 0;
  std::int64_t compatible = 0;
};
SchemaVersion schema_version(Connection& connection, const std::string& schema);
// Brings the schema to the newest version, under a lock that other nodes wait for; each step is one
// transaction. Throws PgError, and Error `conflict` if the schema is too new or not ours.
void migrate(Connection& connection, const std::string& schema);
// Throws Error `conflict` unless this program can use the schema as it is.
void check_schema(const SchemaVersion& found, const std::string& schema);
// The steps from `version` on as text, for those who apply them by hand.
std::string migration_sql(const std::string& schema, std::int64_t version);

}  // namespace mainspring::pg
