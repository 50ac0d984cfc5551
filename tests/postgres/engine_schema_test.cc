// The engine's schema on PostgreSQL has SQLite's tables, and every statement of sql/queries/ can be
// prepared with it, alone and gathered.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <fstream>
#include <set>
#include <sstream>

#include "disk_postgres/query_text.h"
#include "postgres/engine_place.h"
#include "queries_data.h"  // generated from sql/queries

namespace mainspring::pg_testing {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

using Columns = std::set<std::string>;  // "table.column"

Columns columns_of_sqlite() {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(":memory:", &db) == SQLITE_OK);
  const std::string schema = read_file(MAINSPRING_SOURCE_DIR "/sql/sqlite/0001_schema.sql");
  REQUIRE(sqlite3_exec(db, schema.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  Columns columns;
  const auto add = [](void* out, int, char** values, char**) {
    static_cast<Columns*>(out)->insert(values[0]);
    return 0;
  };
  CHECK(sqlite3_exec(db,
                     "SELECT m.name || '.' || c.name FROM sqlite_master m, "
                     "pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND m.name NOT "
                     "LIKE 'sqlite%'",
                     add, &columns, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  return columns;
}

// The types that the disk reads.
bool is_read(Oid type) {
  return type == 16 || type == 17 || type == 20 || type == 21 || type == 23 || type == 25 ||
         type == 701;
}

// Throws what PostgreSQL says; "" = it was prepared.
std::string prepare(PGconn* connection, const std::string& sql, const std::vector<Oid>& types,
                    std::vector<Oid>* described) {
  const auto answer = [](PGresult* result) {
    return std::unique_ptr<PGresult, void (*)(PGresult*)>(result, &PQclear);
  };
  const auto made =
      answer(PQprepare(connection, "", sql.c_str(), static_cast<int>(types.size()), types.data()));
  if (PQresultStatus(made.get()) != PGRES_COMMAND_OK) return PQresultErrorMessage(made.get());
  const auto about = answer(PQdescribePrepared(connection, ""));
  for (int i = 0; i < PQnfields(about.get()); ++i) {
    if (!is_read(PQftype(about.get(), i)))
      return fmt::format("column {} has the type {}", i, PQftype(about.get(), i));
  }
  for (int i = 0; described != nullptr && i < PQnparams(about.get()); ++i)
    described->push_back(PQparamtype(about.get(), i));
  return "";
}

TEST_SUITE("PostgreSQL disk: schema") {
  TEST_CASE("it has the tables, views and columns of SQLite") {
    const EnginePlace place;
    Columns columns;
    for (const auto& row : place.sql(fmt::format(
             "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE "
             "table_schema = '{}'",
             place.schema)))
      columns.insert(row.at(0));
    for (const std::string& column : columns_of_sqlite()) {
      CAPTURE(column);
      CHECK(columns.erase(column) == 1);
    }
    for (const std::string& column : columns) {
      CAPTURE(column);
      const std::string table = column.substr(0, column.find('.'));
      CHECK((table == "leader" || table == "commits" || table.starts_with("job_counts_")));
    }
  }

  TEST_CASE("every statement can be prepared, and few have a second form") {
    const EnginePlace place;
    // Tables that a copy and a reader make for themselves.
    place.sql(fmt::format(
        "CREATE TABLE {0}.copied_blocks (section bigint, block bigint, rows bigint, stamp bigint, "
        "PRIMARY KEY (section, block)); CREATE TABLE {0}.jobs_of_sessions (id bigint, jobs bigint, "
        "head bigint)",
        place.schema));
    const std::unique_ptr<PGconn, void (*)(PGconn*)> connection(
        PQconnectdb(the_cluster().url(the_database()).c_str()), &PQfinish);
    PQclear(PQexec(connection.get(), fmt::format("SET search_path = {}", place.schema).c_str()));
    int forms = 0, gathered = 0;
    CHECK(std::size(queries::kAll) > 400);
    for (const sql::Query* text : queries::kAll) {
      const std::string_view name = text->name;
      CAPTURE(name);
      const bool rare = name.starts_with("transfer.") || name.starts_with("verify.");
      if (text->postgres != nullptr && !rare) ++forms;
      const pg::QueryText query(text->postgres == nullptr ? text->text : text->postgres);
      std::vector<Oid> types;
      CHECK(prepare(connection.get(), query.sql, {}, &types) == "");
      CHECK(types.size() == static_cast<std::size_t>(query.parameters));
      CHECK((query.tables != 0 || rare || name.find("jobs_of") != std::string::npos));
      if (!query.gathers) continue;
      ++gathered;
      std::vector<Oid> arrays;
      for (const Oid type : types) arrays.push_back(pg::array_of(type));
      CHECK(prepare(connection.get(), query.gathered(types), arrays, nullptr) == "");
    }
    MESSAGE(forms << " statements of the engine have a second form, " << gathered
                  << " can be gathered");
    CHECK(forms <= 40);
    CHECK(gathered >= 100);
  }
}

}  // namespace
}  // namespace mainspring::pg_testing
