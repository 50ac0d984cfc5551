// Creates the tables, and knows their names from the same text.
#include "disk_postgres/schema.h"

#include <fmt/format.h>

#include <vector>

#include "engine_schema_data.h"  // generated from sql/postgres_disk

namespace mainspring::pg {

std::span<const std::string_view> engine_tables() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    const std::string_view text = kEngineSchema;
    constexpr std::string_view kCreate = "\nCREATE TABLE ";
    for (std::size_t at = 0; (at = text.find(kCreate, at)) != std::string_view::npos;) {
      at += kCreate.size();
      out.push_back(text.substr(at, text.find(' ', at) - at));
    }
    return out;
  }();
  return names;
}

void create_engine_schema(Connection& connection, const std::string& schema) {
  const Rows found =
      connection.run(Statement("",
                               "SELECT to_regclass(format('%I.commits', $1)) IS NOT NULL, "
                               "to_regnamespace(quote_ident($1)) IS NOT NULL"),
                     params(schema));
  if (found.integer(0, 0) != 0) return;
  const std::string make =
      found.integer(0, 1) != 0 ? "" : fmt::format("CREATE SCHEMA \"{}\";", schema);
  // One transaction: another node sees all of it or nothing.
  connection.execute(fmt::format("BEGIN; {}SET LOCAL search_path = \"{}\"; {} COMMIT", make, schema,
                                 kEngineSchema));
}

}  // namespace mainspring::pg
