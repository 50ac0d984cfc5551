// The engine over a schema of a PostgreSQL database.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/secret.h"
#include "env/clock.h"
#include "sql_store/sql_store.h"

namespace mainspring {

struct PostgresDiskOptions {
  Secret url;  // as in PostgresOptions
  std::string schema = "mainspring_engine";
  Duration connect_timeout = std::chrono::seconds(2);  // for each host
  Duration timeout = std::chrono::seconds(10);         // for each wait for an answer
  SqlStoreOptions store{.cached_body_bytes = std::size_t{64} << 20};
  std::atomic<std::int64_t>* round_trips = nullptr;  // as in EngineConnectionOptions
};

// Opens the store, creates its schema if it is missing, and becomes its leader: an earlier leader
// can write nothing more. Errors: unavailable, conflict, unauthenticated, io_error.
Result<std::unique_ptr<Store>> open_postgres_disk_store(const PostgresDiskOptions& options,
                                                        const Clock& clock, Now now, Log& log);

}  // namespace mainspring
