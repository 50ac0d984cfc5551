// Applies the migrations that CMake put into migrations_data.h.
#include "store_sqlite/migrations.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "migrations_data.h"  // generated: kMigrations, in order

namespace mainspring::sqlite {

std::int64_t newest_schema() {
  return static_cast<std::int64_t>(std::size(kMigrations));
}

void migrate(Database& db) {
  const std::int64_t newest = newest_schema();
  const std::int64_t version = db.query_int("PRAGMA user_version");
  if (version > newest) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format(
                    "the store has schema {} and this program knows schemas up to {}: use a newer "
                    "mainspring",
                    version, newest)};
  }
  if (version < 0) {
    throw Error{.code = ErrorCode::io_error,
                .message = fmt::format("the store has schema {}: the file is damaged", version)};
  }
  if (version == 0 && db.query_int("SELECT count(*) FROM sqlite_schema") != 0) {
    throw Error{.code = ErrorCode::conflict,
                .message = "the database is not a Mainspring store: it has other tables"};
  }
  for (std::int64_t next = version; next < newest; ++next) {
    db.execute("BEGIN IMMEDIATE");
    db.execute(kMigrations[next]);
    db.execute(fmt::format("PRAGMA user_version = {}", next + 1).c_str());
    db.execute("COMMIT");
  }
}

}  // namespace mainspring::sqlite
