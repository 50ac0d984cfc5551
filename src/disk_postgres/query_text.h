// The text of a statement as PostgreSQL needs it, and its form for many executions at once.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainspring::pg {

// Bits of the engine's tables, in the order of sql/postgres_disk/0001_schema.sql.
using Tables = std::uint64_t;

struct QueryText {
  // `text` has its parameters as `?` in order, or as `?1`, `?2`, ….
  explicit QueryText(std::string_view text);

  int parameters = 0;  // before `sql`, which sets it
  std::string sql;     // parameters as $1, $2, …
  bool reads = false;  // returns rows
  Tables tables = 0;   // that it reads or writes; all bits if it names a view

  // Whether executions can be gathered: one statement then takes an array for each parameter.
  bool gathers = false;
  // Parameters, from 0, that name a row. Rows of one array must differ in them. Empty = any rows.
  std::vector<int> keys;
  // The gathered form, for parameters of these types.
  std::string gathered(std::span<const Oid> types) const;

 private:
  bool find_insert();
  bool find_update();
  bool find_delete();
  std::string before_, after_;  // in the gathered form: around FROM unnest(…)
};

// The type of an array of this type; 0 = the engine has no such type.
Oid array_of(Oid type);

}  // namespace mainspring::pg
