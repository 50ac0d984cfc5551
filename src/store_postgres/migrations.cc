// Applies the migrations in postgres_migrations_data.h, which CMake generates.
#include "store_postgres/migrations.h"

#include <fmt/format.h>

#include <iterator>

#include "base/mutant.h"
#include "postgres_migrations_data.h"  // generated: kMigrationTexts, in order

namespace mainspring::pg {
namespace {

constexpr Migration kMigrations[] = {
    {.sql = kMigrationTexts[0], .compatible = 1},
};
static_assert(std::size(kMigrations) == std::size(kMigrationTexts));

std::string with_schema(std::string_view text, const std::string& schema) {
  std::string out;
  constexpr std::string_view kName = "$schema";
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(kName, at)) != std::string_view::npos;) {
    out.append(text, at, found - at).append(schema);
    at = found + kName.size();
  }
  return out.append(text, at, std::string_view::npos);
}

// Development builds stored their schema version in `meta`, as any number; later ones had the same
// tables as schema 1, but keys of workflows that were unique.
constexpr std::string_view kFindSchema =
    "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1), "
    "coalesce(bool_or(relname = 'schema_version'), false), "
    "coalesce(bool_or(relname = 'meta' AND EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = "
    "c.oid AND attname = 'compatible') OR relname = 'workflow_keys' AND EXISTS (SELECT 1 FROM "
    "pg_index WHERE indexrelid = c.oid AND indisunique)), false), count(*) FROM pg_class c JOIN "
    "pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";

struct FoundSchema {
  bool exists = false;
  SchemaVersion version;
};

// Reads the catalogs in the snapshot of the statement. Functions such as to_regclass() may use a
// cache that lacks what another node has just committed.
FoundSchema find_schema(Connection& connection, const std::string& schema) {
  const Rows found = connection.run(Statement(schema, kFindSchema), params(schema));
  FoundSchema out{.exists = found.integer(0, 0) != 0, .version = {}};
  if (found.integer(0, 2) != 0) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format(
                    "schema {}: created by a development build of Mainspring, which this version "
                    "cannot read: drop the schema, or choose another one (store_schema)",
                    schema)};
  }
  if (found.integer(0, 1) != 0) {
    const Rows row =
        connection.run(Statement(schema, "SELECT version, compatible FROM $schema.schema_version"));
    if (!row.empty()) out.version = {.version = row.integer(0, 0), .compatible = row.integer(0, 1)};
    return out;
  }
  if (found.integer(0, 3) != 0) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("schema {}: holds tables that are not Mainspring's: choose "
                                       "another one (store_schema)",
                                       schema)};
  }
  return out;
}

// Other nodes wait here until the transaction ends. The lock belongs to the transaction, so it also
// works with a pooler.
void lock_schema(Connection& connection, const std::string& schema) {
  connection.execute("SET LOCAL lock_timeout = '5s'");
  if (MS_MUTANT(schema_created_without_lock)) return;
  connection.execute(fmt::format(
      "SELECT pg_advisory_xact_lock(hashtextextended('mainspring migrate {}', 0))", schema));
}

void apply_next(Connection& connection, const std::string& schema,
                std::span<const Migration> known) {
  lock_schema(connection, schema);
  const FoundSchema found = find_schema(connection, schema);
  if (found.version.version >= std::ssize(known)) return;  // another node was first
  // IF NOT EXISTS would require the right to create schemas even if it exists.
  if (!found.exists) connection.execute("CREATE SCHEMA " + schema);
  const Migration& next = known[static_cast<std::size_t>(found.version.version)];
  connection.execute(with_schema(next.sql, schema));
  connection.execute(fmt::format(
      "INSERT INTO {0}.schema_version (version, compatible) VALUES ({1}, {2}) ON CONFLICT (one) DO "
      "UPDATE SET version = excluded.version, compatible = excluded.compatible",
      schema, found.version.version + 1, next.compatible));
}

}  // namespace

std::span<const Migration> migrations() {
  return kMigrations;
}

std::int64_t newest_schema() {
  return std::ssize(kMigrations);
}

SchemaVersion schema_version(Connection& connection, const std::string& schema) {
  return find_schema(connection, schema).version;
}

void check_schema(const SchemaVersion& found, const std::string& schema, std::int64_t newest) {
  if (found.compatible > newest && !MS_MUTANT(newer_schema_accepted)) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("schema {}: has version {}, and this program supports "
                                       "versions up to {}: use a newer mainspring",
                                       schema, found.version, newest)};
  }
  if (found.version < newest) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("schema {}: has version {}, and this program needs version "
                                       "{}: run `mainspring store migrate`",
                                       schema, found.version, newest)};
  }
}

void migrate(Connection& connection, const std::string& schema, std::span<const Migration> known) {
  while (schema_version(connection, schema).version < std::ssize(known)) {
    // A default of the role or database must not hide what another node has committed.
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED");
    try {
      apply_next(connection, schema, known);
      connection.execute("COMMIT");
    } catch (const PgError& error) {
      if (!error.lost) connection.execute("ROLLBACK");
      throw;
    } catch (const Error&) {
      connection.execute("ROLLBACK");
      throw;
    }
  }
  check_schema(schema_version(connection, schema), schema, std::ssize(known));
}

}  // namespace mainspring::pg
