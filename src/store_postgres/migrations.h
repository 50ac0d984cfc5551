// The schema of the PostgreSQL store: numbered migrations, forward only, applied by one node at a
// time.
//
// To change the schema of a released version, add a file sql/postgres/NNNN_NAME.sql and an entry in
// migrations(). Files with the same number are one migration.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

// A node is alive if it was seen this recently, in microseconds.
inline constexpr std::int64_t kNodeAlive = 15'000'000;

struct Migration {
  std::string_view sql;  // `$schema` is replaced by the schema's name
  // The oldest schema version that a program must know to use the store after this migration.
  std::int64_t compatible = 0;
};
// The migrations of this program. The first one creates schema 1.
std::span<const Migration> migrations();
// The number of the newest schema that this program knows.
std::int64_t newest_schema();

struct SchemaVersion {
  std::int64_t version = 0;     // 0 = no store
  std::int64_t compatible = 0;  // see Migration
};
// Throws PgError, and Error `conflict` if the schema contains other tables, or was created by a
// development build.
SchemaVersion schema_version(Connection& connection, const std::string& schema);
// Applies the missing migrations of `known`, each in its own transaction. Other nodes wait
// meanwhile. Throws PgError, and Error `conflict` as schema_version() and check_schema().
void migrate(Connection& connection, const std::string& schema,
             std::span<const Migration> known = migrations());
// Throws Error `conflict` unless a program that knows schemas up to `newest` can use this one.
void check_schema(const SchemaVersion& found, const std::string& schema,
                  std::int64_t newest = newest_schema());

}  // namespace mainspring::pg
