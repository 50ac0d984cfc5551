// PgBouncer: its configuration, and its life as a ServerProcess.
#include "postgres/pgbouncer.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace mainspring::pg_testing {

Result<std::unique_ptr<PgBouncer>> PgBouncer::make(const PgCluster& cluster, int pool) {
  std::unique_ptr<PgBouncer> bouncer(new PgBouncer());
  MS_TRY_ASSIGN(bouncer->directory_, make_server_directory());
  std::ofstream(bouncer->directory_ + "/pgbouncer.ini")
      << "[databases]\n"
      << fmt::format("* = host={} port={} user=mainspring\n", cluster.directory(),
                     cluster.port() == 0 ? 5432 : cluster.port())
      << "[pgbouncer]\n"
      << "listen_addr =\n"
      << "listen_port = 6432\n"
      << fmt::format("unix_socket_dir = {}\n", bouncer->directory_) << "auth_type = any\n"
      << "pool_mode = transaction\n"
      << fmt::format("default_pool_size = {}\n", pool)
      << "max_client_conn = 200\n"
      // Others would be refused instead of passed over.
      << "ignore_startup_parameters = extra_float_digits,options\n"
      << "server_login_retry = 1\n";
  MS_TRY(bouncer->start());
  return bouncer;
}

Result<void> PgBouncer::start() {
  std::error_code ignored;
  std::filesystem::remove(directory_ + "/.s.PGSQL.6432", ignored);
  return server_.start({.argv = {"/usr/sbin/pgbouncer", directory_ + "/pgbouncer.ini"},
                        .directory = directory_,
                        .user = server_user(),
                        .ready = "process up"},
                       std::chrono::seconds(20));
}

PgBouncer::~PgBouncer() {
  server_.kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string PgBouncer::url(const std::string& database) const {
  return fmt::format("postgres://mainspring@/{}?host={}&port=6432", database, directory_);
}

}  // namespace mainspring::pg_testing
