// PgCluster: a private PostgreSQL server for a test, in a temporary directory. PgConnection: one
// connection to any server.
//
//   auto cluster = PgCluster::make({});                  // initdb (cached), started
//   std::string url = (*cluster)->new_database();        // owned by the role "mainspring"
//   (*cluster)->kill9(); (*cluster)->start();            // and so on
//
// Many may run at once. The server ends with the object, at the latest with the process. As root it
// runs as the user postgres, otherwise as the user of this process.
//
// fsync is off by default: the writes of a killed process are in the page cache, and only a power
// cut would lose them. full_page_writes stays on: a kill can tear a block of 8 KiB in two.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"
#include "postgres/server_process.h"

struct pg_conn;

namespace mainspring::pg_testing {

using Rows = std::vector<std::vector<std::string>>;  // NULL reads as ""

class PgConnection {
 public:
  // Errors: unavailable.
  static Result<PgConnection> open(const std::string& url);
  // Statements separated by ';'; the rows of the last one. Errors: internal, with the server's
  // message after its SQLSTATE; unavailable (the connection is lost).
  Result<Rows> sql(const std::string& text);
  // Sends it and does not wait for the answer.
  Result<void> send(const std::string& text);
  // The answer to the sent statements.
  Result<Rows> answer();
  int backend() const;  // its process at the server

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  std::unique_ptr<pg_conn, Close> connection_;
};

struct ClusterOptions {
  bool fsync = false;
  bool tcp = false;  // also on 127.0.0.1, on its own port
  // url() is over TLS, with sslmode=verify-full, and TCP without TLS is refused. Also on with
  // MAINSPRING_TEST_PG_TLS=on in the environment.
  bool tls = false;
  int max_connections = 60;
  std::vector<std::string> settings;  // "name = value" of postgresql.conf; later ones win
  // The size limit of the server's files: beyond it is "no space" or "too large". 0 = none.
  std::int64_t file_bytes = 0;
  // Where it keeps its data; "" = in its temporary directory.
  std::string data_directory;
  // Data in memory if it fits: for tests with many schemas, whose files would take a disk longer to
  // create and remove than the tests to run.
  bool in_memory = false;
};

class PgCluster {
 public:
  // Creates and starts one. Errors: unavailable, internal; not_found (PostgreSQL is not installed).
  static Result<std::unique_ptr<PgCluster>> make(ClusterOptions options);
  ~PgCluster();
  PgCluster(const PgCluster&) = delete;
  PgCluster& operator=(const PgCluster&) = delete;

  // -- its life -----------------------------------------------------------------------------------
  Result<void> start();
  enum class Stop {
    fast,       // connections are ended, a checkpoint is made
    immediate,  // as if killed: it recovers at its next start
  };
  Result<void> stop(Stop how);
  void kill9();  // the postmaster and its remaining children; returns when all are gone
  // Freezes the server: connections stay open, nothing is answered. Until resume().
  void pause();
  void resume();
  bool running() const { return server_.pid() != 0; }

  // -- its processes ------------------------------------------------------------------------------
  // The processes that serve clients of the role `user` now ("" = all), with their activity as in
  // the process title: "idle", "COMMIT", …
  struct Backend {
    int pid = 0;
    std::string doing;
  };
  std::vector<Backend> backends(const std::string& user = "mainspring") const;
  // SIGKILL: the server ends all other backends, recovers and continues. False: no such backend.
  bool kill_backend(int pid) const;
  // How often it was ready for connections since start(): a crash of a backend adds one.
  int times_ready() const { return server_.times_ready(); }
  bool await_ready(int times) { return server_.await_ready(times, kStartLimit); }

  // -- its use ------------------------------------------------------------------------------------
  // As superuser, on a new connection.
  Result<Rows> sql(const std::string& text, const std::string& database = "postgres");
  // Changes a setting and waits until new connections have it.
  Result<void> set(const std::string& name, const std::string& value);
  // An empty database of the role "mainspring"; returns its name.
  Result<std::string> new_database();
  // For libpq, by the socket or over TLS. "mainspring" owns databases and has no other rights;
  // "postgres" is the superuser.
  std::string url(const std::string& database, const std::string& user = "mainspring") const;
  // By 127.0.0.1 and a given port, for example that of a proxy.
  static std::string tcp_url(int port, const std::string& database,
                             const std::string& user = "mainspring");
  int port() const { return port_; }  // 0 without tcp
  const std::string& directory() const { return directory_; }
  std::string socket_path() const;
  std::string log() const { return server_.log(); }

  static constexpr Duration kStartLimit = std::chrono::seconds(60);
  static constexpr Duration kStopLimit = std::chrono::seconds(60);

 private:
  explicit PgCluster(ClusterOptions options);
  Result<void> prepare();
  Result<void> init_data();
  Result<void> use_tls();
  void signal_all(int number) const;
  std::vector<int> children() const;

  ClusterOptions options_;
  std::string directory_;
  std::string data_;
  int port_ = 0;
  int databases_ = 0;
  ServerProcess server_;
};

// The path of a PostgreSQL program.
std::string server_program(const std::string& name);
// The user of the servers: "postgres" if this process is root, else "" (its own user).
std::string server_user();
// A new directory that server_user() owns. Its name contains the process id: directories of
// processes that have ended are removed.
Result<std::string> make_server_directory();
// A free port of 127.0.0.1.
int free_port();

}  // namespace mainspring::pg_testing
