// Applies the migrations that CMake put into postgres_migrations_data.h.
#include "store_postgres/migrations.h"

#include <fmt/format.h>

#include <iterator>

#include "postgres_migrations_data.h"  // generated: kMigrations, in order

namespace mainspring::pg {
namespace {

// For each schema: the oldest that programs may know which work with it.
constexpr std::int64_t kCompatible[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static_assert(std::size(kCompatible) == std::size(kMigrations));

std::string with_schema(const std::string& text, const std::string& schema) {
  std::string out;
  constexpr std::string_view kName = "$schema";
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(kName, at)) != std::string::npos;) {
    out.append(text, at, found - at).append(schema);
    at = found + kName.size();
  }
  return out.append(text, at, std::string::npos);
}

std::string step_sql(const std::string& schema, std::int64_t to) {
  const auto i = static_cast<std::size_t>(to - 1);
  return with_schema(kMigrations[i], schema) +
         fmt::format(
             "\nINSERT INTO {0}.meta (version, compatible) VALUES ({1}, {2}) ON CONFLICT "
             "(one) DO UPDATE SET version = {1}, compatible = greatest(meta.compatible, {2});\n",
             schema, to, kCompatible[i]);
}

// Not by IF NOT EXISTS: that wants the right to make schemas, there or not.
std::string make_schema_sql(const std::string& schema) {
  return fmt::format(
      "DO $do$ BEGIN IF to_regnamespace('{0}') IS NULL THEN CREATE SCHEMA {0}; END IF; END $do$",
      schema);
}

}  // namespace

std::int64_t newest_schema() {
  return static_cast<std::int64_t>(std::size(kMigrations));
}

std::int64_t newest_is_compatible_with() {
  return kCompatible[std::size(kCompatible) - 1];
}

SchemaVersion schema_version(Connection& connection, const std::string& schema) {
  const Statement there(schema,
                        "SELECT to_regclass($1) IS NOT NULL, to_regnamespace($2) IS NOT "
                        "NULL AND EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = "
                        "to_regnamespace($2))");
  const Rows found = connection.run(there, params(schema + ".meta", schema));
  if (found.integer(0, 0) == 0) {
    if (found.integer(0, 1) != 0) {
      throw Error{
          .code = ErrorCode::conflict,
          .message = fmt::format("schema {} is not a Mainspring store: it has other tables; "
                                 "choose another name for the schema",
                                 schema)};
    }
    return {};
  }
  const Statement version(schema, "SELECT version, compatible FROM $schema.meta");
  const Rows rows = connection.run(version);
  if (rows.empty()) return {};
  return {.version = rows.integer(0, 0), .compatible = rows.integer(0, 1)};
}

void check_schema(const SchemaVersion& found, const std::string& schema) {
  const std::int64_t newest = newest_schema();
  if (found.compatible > newest) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("the store {} has schema {} and this program knows schemas "
                                       "up to {}: use a newer mainspring",
                                       schema, found.version, newest)};
  }
  if (found.version < newest) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("the store {} has schema {} and this program needs {}: run "
                                       "`mainspring store migrate`",
                                       schema, found.version, newest)};
  }
}

void migrate(Connection& connection, const std::string& schema) {
  for (;;) {
    const SchemaVersion before = schema_version(connection, schema);
    if (before.version >= newest_schema()) break;
    // In one transaction with a lock of its own, so that it works through a pooler too.
    connection.execute("BEGIN");
    try {
      connection.execute("SET LOCAL lock_timeout = '5s'");
      connection.execute(fmt::format(
          "SELECT pg_advisory_xact_lock(hashtextextended('mainspring migrate {}', 0))", schema));
      connection.execute(make_schema_sql(schema));
      const SchemaVersion now = schema_version(connection, schema);
      if (now.version == before.version) connection.execute(step_sql(schema, now.version + 1));
      connection.execute("COMMIT");
    } catch (const PgError& error) {
      if (!error.lost) connection.execute("ROLLBACK");
      throw;
    } catch (const Error&) {
      connection.execute("ROLLBACK");
      throw;
    }
  }
  check_schema(schema_version(connection, schema), schema);
}

std::string migration_sql(const std::string& schema, std::int64_t version) {
  std::string out = make_schema_sql(schema) + ";\n";
  for (std::int64_t next = version + 1; next <= newest_schema(); ++next)
    out += "BEGIN;\n" + step_sql(schema, next) + "COMMIT;\n";
  return out;
}

}  // namespace mainspring::pg
