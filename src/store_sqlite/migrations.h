// Numbered migrations: sql/sqlite/*.sql, compiled in, applied in order, each in one transaction.
#pragma once

#include "store_sqlite/database.h"

namespace mainspring::sqlite {

// Brings the database to the newest schema. Throws SqlError, or Error `conflict` if it is newer
// than this program.
void migrate(Database& db);
// The newest schema that this program knows.
std::int64_t newest_schema();

}  // namespace mainspring::sqlite
