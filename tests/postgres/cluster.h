// PgCluster: a PostgreSQL server of a test's own, in a temporary directory; PgConnection: one
// connection to any server.
//
//   auto cluster = PgCluster::make({});                  // initdb (cached), started
//   std::string url = (*cluster)->new_database();        // owned by the role "mainspring"
//   (*cluster)->kill9(); (*cluster)->start();            // and so on
//
// Many may run at once. It is gone with the object, and at the latest with the process. As root it
// runs as the user postgres; otherwise as this process.
//
// fsync is off unless asked for: what a killed process has written is in the page cache, and only a
// power cut would lose it. full_page_writes stays on: a kill can tear a block of 8 KiB in two.
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
  // The answer to what was sent.
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
  bool tcp = false;  // also on 127.0.0.1, on a port of its own
  // url() is over TLS, with sslmode=verify-full, and TCP without TLS is refused. Also on with
  // MAINSPRING_TEST_PG_TLS=on in the environment.
  bool tls = false;
  int max_connections = 60;
  std::vector<std::string> settings;  // "name = value" of postgresql.conf; later ones win
  // No file of the server may be larger: what is beyond is "no space" or "too large". 0 = none.
  std::int64_t file_bytes = 0;
  // Where it keeps its data; "" = in its temporary directory.
  std::string data_directory;
  // Its data in memory, where there is room: for tests that make many schemas, whose files take a
  // disk longer to make and to remove than the tests to run.
  bool in_memory = false;
};

class PgCluster {
 public:
  // Made and started. Errors: unavailable, internal; not_found (PostgreSQL is not installed).
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
  void kill9();  // the postmaster, and what it leaves behind; returns when all are gone
  // Stands still: connections stay open, nothing is answered. Until resume().
  void pause();
  void resume();
  bool running() const { return server_.pid() != 0; }

  // -- its processes ------------------------------------------------------------------------------
  // Those that serve clients of the role `user` now ("" = all), with what each does, as in its
  // title: "idle", "COMMIT", …
  struct Backend {
    int pid = 0;
    std::string doing;
  };
  std::vector<Backend> backends(const std::string& user = "mainspring") const;
  // SIGKILL: the server ends all others too, recovers and goes on. False if there is none such.
  bool kill_backend(int pid) const;
  // How often it was ready for connections since start(): a crash of a backend adds one.
  int times_ready() const { return server_.times_ready(); }
  bool await_ready(int times) { return server_.await_ready(times, kStartLimit); }

  // -- its use ------------------------------------------------------------------------------------
  // As superuser, on a connection of its own.
  Result<Rows> sql(const std::string& text, const std::string& database = "postgres");
  // A setting, and waits until new connections have it.
  Result<void> set(const std::string& name, const std::string& value);
  // An empty database of the role "mainspring"; returns its name.
  Result<std::string> new_database();
  // For libpq, by the socket, or over TLS. "mainspring" owns databases and is nothing else;
  // "postgres" may all.
  std::string url(const std::string& database, const std::string& user = "mainspring") const;
  // By 127.0.0.1 and any port, for instance a proxy's.
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

// Where a program of PostgreSQL is.
std::string server_program(const std::string& name);
// Who servers run as: "postgres" if this process is root, else "" (as itself).
std::string server_user();
// A new directory that server_user() owns. Its name tells whose it is: those of processes that have
// gone are removed on the way.
Result<std::string> make_server_directory();
// A port of 127.0.0.1 that nobody listens on.
int free_port();

}  // namespace mainspring::pg_testing
