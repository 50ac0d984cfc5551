// A schema of the engine's tables, on the test program's server.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>

#include "disk_postgres/engine_connection.h"
#include "disk_postgres/postgres_disk.h"
#include "disk_postgres/schema.h"
#include "env/clock.h"
#include "postgres/places.h"

namespace mainspring::pg_testing {

struct EnginePlace {
  EnginePlace() {
    static std::atomic<int> count{0};
    schema = fmt::format("engine{}", ++count);
    pg::Connection connection(options().connection, clock);
    pg::create_engine_schema(connection, schema);
  }
  ~EnginePlace() { sql(fmt::format("DROP SCHEMA {} CASCADE", schema)); }
  EnginePlace(const EnginePlace&) = delete;
  EnginePlace& operator=(const EnginePlace&) = delete;

  pg::EngineConnectionOptions options() const {
    constexpr Duration kLimit = std::chrono::seconds(60);  // of a busy machine
    return {.connection = {.url = Secret(the_cluster().url(the_database())),
                           .connect_timeout = kLimit,
                           .timeout = kLimit,
                           .name = "mainspring test"},
            .schema = schema,
            .round_trips = &round_trips};
  }
  std::unique_ptr<pg::EngineConnection> open(pg::EngineConnection::Role role) const {
    return std::make_unique<pg::EngineConnection>(options(), role, clock);
  }
  std::unique_ptr<pg::EngineConnection> leader() const {
    return open(pg::EngineConnection::Role::leader);
  }
  std::unique_ptr<pg::EngineConnection> reader() const {
    return open(pg::EngineConnection::Role::reader);
  }
  std::unique_ptr<Store> open_store(const StoreOptions& store, Now now, Log& log) const {
    const auto connection = options().connection;
    PostgresDiskOptions all{.url = connection.url,
                            .schema = schema,
                            .connect_timeout = connection.connect_timeout,
                            .timeout = connection.timeout,
                            .round_trips = &round_trips};
    all.store.store = store;
    all.store.kept_sessions = kept_sessions;
    all.store.packed_workflows = packs_workflows();
    return must(open_postgres_disk_store(all, clock, now, log));
  }
  // As superuser, with the schema's tables.
  Rows sql(const std::string& text) const {
    return must(
        the_cluster().sql(fmt::format("SET search_path = {}; {}", schema, text), the_database()));
  }

  ManualClock clock;
  std::string schema;
  std::size_t kept_sessions = 2;  // so that they come and go
  mutable std::atomic<std::int64_t> round_trips{0};
};

}  // namespace mainspring::pg_testing
