// Inspects a shared store without joining it as a node, and migrates it.
#pragma once

#include "store_postgres/postgres_store.h"

namespace mainspring {

struct SharedStoreInfo {
  std::int64_t schema = 0;  // 0 = no schema
  std::int64_t newest_schema = 0;
  int server_version = 0;  // for example 150004
  std::int64_t bytes = 0;  // of all its tables and indexes
  std::int64_t nodes = 0;  // alive
  Durability durability;
  // The server settings that matter to the store, by name, as in pg_settings.
  std::map<std::string, std::string> settings;
};

// Errors: as open_postgres_store().
Result<SharedStoreInfo> inspect_postgres_store(const PostgresOptions& options);
// Migrates the schema to this program's version. Errors: as open_postgres_store().
Result<void> migrate_postgres_store(const PostgresOptions& options);
// Removes the schema with all its contents. For benchmarks and tests, in schemas of their own.
// Errors: as open_postgres_store(), invalid_argument (the name does not start with kScratchSchema).
inline constexpr std::string_view kScratchSchema = "mainspring_bench";
Result<void> drop_postgres_store(const PostgresOptions& options);

}  // namespace mainspring
