// The engine's schema in a PostgreSQL database.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

// The names of its tables, in order.
std::span<const std::string_view> engine_tables();

// Creates the schema if it has no tables. Throws PgError.
void create_engine_schema(Connection& connection, const std::string& schema);

}  // namespace mainspring::pg
