// Numbered migrations: sql/sqlite/*.sql, compiled in and applied in order. The schema version of a
// store is the number of migrations applied to it: PRAGMA user_version.
#pragma once

#include <span>

#include "disk_sqlite/database.h"

namespace mainspring::sqlite {

// "MSPR": PRAGMA application_id of a store; other programs have other values. Development builds
// before the first release wrote 0; their schemas 1 to 24 are not supported.
inline constexpr std::int64_t kApplicationId = 0x4d535052;

using Migrations = std::span<const char* const>;
Migrations all_migrations();
// The newest schema that this program knows.
std::int64_t newest_schema();

// The schema version of the database; 0 = the database is empty. Throws DiskError, or Error:
// `conflict` (not a store, from a development build, or newer than `newest`), `io_error` (damaged).
std::int64_t schema_of(Database& db, std::int64_t newest = newest_schema());
// Applies the missing `migrations` in one transaction. Throws as schema_of().
void migrate(Database& db, Migrations migrations = all_migrations());

}  // namespace mainspring::sqlite
