// What can be told of a shared store without joining it as a node, and its migration.
#pragma once

#include "store_postgres/postgres_store.h"

namespace mainspring {

struct SharedStoreInfo {
  std::int64_t schema = 0;  // 0 = there is none
  std::int64_t newest_schema = 0;
  int server_version = 0;  // 150004
  std::int64_t bytes = 0;  // of all its tables and indexes
  std::int64_t nodes = 0;  // alive
  Durability durability;
  // Of the server's settings those that matter to the store, as pg_settings has them, by name.
  std::map<std::string, std::string> settings;
};

// Errors: as open_postgres_store().
Result<SharedStoreInfo> inspect_postgres_store(const PostgresOptions& options);
// Brings the schema up to this program's. Errors: as open_postgres_store().
Result<void> migrate_postgres_store(const PostgresOptions& options);
// Removes the schema and all that is in it. For measurements and tests, in schemas of their own.
// Errors: as open_postgres_store(), invalid_argument (its name does not begin with
// kScratchSchema).
inline constexpr std::string_view kScratchSchema = "mainspring_bench";
Result<void> drop_postgres_store(const PostgresOptions& options);

}  // namespace mainspring
