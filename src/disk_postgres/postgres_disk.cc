// A connection of the leader, and one for each reader.
#include "disk_postgres/postgres_disk.h"

#include <fmt/format.h>

#include "disk_postgres/engine_connection.h"
#include "disk_postgres/schema.h"
#include "store_postgres/session_settings.h"

namespace mainspring::pg {
namespace {

// Space, pages and backups are the server's.
class PostgresDisk final : public sql::Disk {
 public:
  PostgresDisk(EngineConnectionOptions options, const Clock& clock)
      : clock_(clock), options_(std::move(options)), writer_(options_, Role::leader, clock) {}

  std::string place() const override {
    return fmt::format("schema {} of PostgreSQL", options_.schema);
  }
  sql::Connection& writer() override { return writer_; }
  std::unique_ptr<sql::Connection> reader() const override {
    return std::make_unique<EngineConnection>(options_, Role::reader, clock_);
  }
  void commit() override { writer_.commit(); }
  bool refuses_new_jobs(Instant) override { return false; }
  bool find_space() override { return false; }
  std::string shortage() const override { return ""; }
  void with_reserve(const std::function<void()>& write) override { write(); }
  void check_pages(sql::Connection&, std::vector<std::string>&) const override {}
  Result<void> backup(const std::string&) const override {
    return Error{.code = ErrorCode::conflict,
                 .message = "the store is a PostgreSQL database: back it up with pg_dump"};
  }

 private:
  using Role = EngineConnection::Role;
  const Clock& clock_;
  const EngineConnectionOptions options_;
  EngineConnection writer_;
};

}  // namespace
}  // namespace mainspring::pg

namespace mainspring {

Result<std::unique_ptr<Store>> open_postgres_disk_store(const PostgresDiskOptions& options,
                                                        const Clock& clock, Now now, Log& log) {
  const pg::EngineConnectionOptions of_connection = {
      .connection = {.url = options.url,
                     .connect_timeout = options.connect_timeout,
                     .timeout = options.timeout,
                     .name = "mainspring"},
      .schema = options.schema,
      .round_trips = options.round_trips};
  try {
    {
      pg::Connection connection(of_connection.connection, clock);
      pg::check_settings(connection, false, options.timeout);
      pg::create_engine_schema(connection, options.schema);
    }
    return open_sql_store(options.store, std::make_unique<pg::PostgresDisk>(of_connection, clock),
                          now, log);
  } catch (const pg::PgError& error) {
    return pg::to_error(error);
  } catch (const sql::DiskError& error) {
    log.debug("the store cannot be opened", {{"why", error.detail}});
    return sql::to_error(error);
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace mainspring
