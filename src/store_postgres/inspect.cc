// Inspects a store over one connection.
#include "store_postgres/inspect.h"

#include "store_postgres/connection.h"
#include "store_postgres/migrations.h"
#include "store_postgres/statements.h"

namespace mainspring {
namespace {

pg::ConnectionOptions inspect_options(const PostgresOptions& options, bool writable) {
  return {.url = options.url,
          .connect_timeout = options.connect_timeout,
          .timeout = options.statement_timeout,
          .prepared = options.prepared,
          .writable = writable,
          .name = "mainspring store"};
}

// Runs a function and returns what it throws as an error.
template <class Do>
auto caught(Do act) -> decltype(act()) {
  try {
    return act();
  } catch (const pg::PgError& error) {
    return pg::to_error(error);
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace

Result<SharedStoreInfo> inspect_postgres_store(const PostgresOptions& options) {
  return caught([&]() -> Result<SharedStoreInfo> {
    const SystemClock clock;
    pg::Connection c(inspect_options(options, false), clock);
    SharedStoreInfo info{.newest_schema = pg::newest_schema(),
                         .server_version = c.server_version()};
    info.schema = pg::schema_version(c, options.schema).version;
    const pg::Statements sql(options.schema);
    const pg::Rows durable = c.run(sql.durability);
    info.durability = {.synchronous_commit = durable.string(0, 0),
                       .synchronous_standbys = static_cast<int>(durable.integer(0, 1)),
                       .read_only = durable.integer(0, 2) != 0};
    const pg::Statement settings(
        options.schema, "SELECT name, setting FROM pg_settings WHERE name = ANY($1) ORDER BY name");
    const std::vector<std::string> names = {
        "autovacuum",       "fsync",
        "full_page_writes", "idle_in_transaction_session_timeout",
        "max_connections",  "max_wal_size",
        "shared_buffers",   "synchronous_commit"};
    const pg::Rows rows = c.run(settings, pg::params(names));
    for (int i = 0; i < rows.size(); ++i) info.settings[rows.string(i, 0)] = rows.string(i, 1);
    if (info.schema == 0) return info;
    const pg::Statement size(
        options.schema,
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN "
        "pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'");
    const pg::Statement nodes(
        options.schema, "SELECT count(*) FROM $schema.nodes WHERE seen_at > $schema.now_us() - $1");
    info.bytes = c.run(size, pg::params(options.schema)).integer(0, 0);
    info.nodes = c.run(nodes, pg::params(pg::kNodeAlive)).integer(0, 0);
    return info;
  });
}

Result<void> migrate_postgres_store(const PostgresOptions& options) {
  return caught([&]() -> Result<void> {
    const SystemClock clock;
    pg::Connection c(inspect_options(options, true), clock);
    pg::migrate(c, options.schema);
    return {};
  });
}

Result<void> drop_postgres_store(const PostgresOptions& options) {
  if (!options.schema.starts_with(kScratchSchema)) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = fmt::format("schema {}: only schemas with names that start with {} are removed",
                               options.schema, kScratchSchema),
        .field = "schema"};
  }
  return caught([&]() -> Result<void> {
    const SystemClock clock;
    pg::Connection c(inspect_options(options, true), clock);
    c.execute(fmt::format("DROP SCHEMA IF EXISTS {} CASCADE", options.schema));
    return {};
  });
}

}  // namespace mainspring
