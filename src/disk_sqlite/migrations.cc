// Applies the migrations in migrations_data.h, which CMake generates.
#include "disk_sqlite/migrations.h"

#include <fmt/format.h>

#include <iterator>

#include "base/mutant.h"
#include "migrations_data.h"  // generated: kMigrations, in order

namespace mainspring::sqlite {
namespace {

[[noreturn]] void refuse(ErrorCode code, Database& db, std::string_view why) {
  const char* path = sqlite3_db_filename(db.handle(), "main");
  throw Error{.code = code, .message = fmt::format("{}: {}", path == nullptr ? "" : path, why)};
}

[[noreturn]] void refuse_development_build(Database& db, std::int64_t version) {
  refuse(ErrorCode::conflict, db,
         fmt::format("created by a development build of Mainspring (schema {}), which this version "
                     "cannot read: use an empty data directory",
                     version));
}

// Without an application_id the database is empty, of a development build, or of another program.
std::int64_t unmarked_schema(Database& db, std::int64_t version) {
  if (version == 0 && db.query_int("SELECT count(*) FROM sqlite_schema") == 0) return 0;
  const bool has_jobs = db.query_int(
                            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN "
                            "('jobs', 'grants', 'job_counts')") == 3;
  if (!has_jobs || version < 1) refuse(ErrorCode::conflict, db, "not a Mainspring store");
  if (MS_MUTANT(development_store_accepted)) return version;
  refuse_development_build(db, version);
}

}  // namespace

Migrations all_migrations() {
  return kMigrations;
}

std::int64_t newest_schema() {
  return std::ssize(all_migrations());
}

std::int64_t schema_of(Database& db, std::int64_t newest) {
  const std::int64_t id = db.query_int("PRAGMA application_id");
  const std::int64_t version = db.query_int("PRAGMA user_version");
  if (id == 0) return unmarked_schema(db, version);
  if (id != kApplicationId) refuse(ErrorCode::conflict, db, "not a Mainspring store");
  if (version < 1) {
    refuse(ErrorCode::io_error, db, fmt::format("schema {}: the file is damaged", version));
  }
  if (version > newest && !MS_MUTANT(newer_store_accepted)) {
    refuse(ErrorCode::conflict, db,
           fmt::format("schema {}: this version of Mainspring reads schemas up to {}: use a newer "
                       "one",
                       version, newest));
  }
  // The last development builds had the number of schema 1, but keys of workflows that were unique.
  if (db.query_int("SELECT count(*) FROM pragma_index_list('workflows') WHERE name = "
                   "'workflow_keys' AND \"unique\"") != 0) {
    refuse_development_build(db, version);
  }
  return version;
}

void migrate(Database& db, Migrations migrations) {
  const std::int64_t newest = std::ssize(migrations);
  const std::int64_t version = schema_of(db, newest);
  if (version >= newest) return;
  db.execute("BEGIN IMMEDIATE");
  try {
    for (const char* sql : migrations.subspan(static_cast<std::size_t>(version))) db.execute(sql);
    db.execute(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str());
    db.execute(fmt::format("PRAGMA user_version = {}", newest).c_str());
    db.execute("COMMIT");
  } catch (const DiskError&) {
    sqlite3_exec(db.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

}  // namespace mainspring::sqlite
