// The PostgreSQL servers that the tests of the store use.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "env/clock.h"
#include "postgres/cluster.h"
#include "postgres/pgbouncer.h"
#include "postgres/tcp_proxy.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}
void must(const Result<void>& result) {
  if (!result) FAIL(result.error().message);
}

std::string one(const Rows& rows) {
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].size() == 1);
  return rows[0][0];
}

bool alive(int pid) {
  return kill(pid, 0) == 0;
}

// A database with a table of numbers; `connection` is one to it.
struct Numbers {
  explicit Numbers(PgCluster& cluster)
      : database(must(cluster.new_database())),
        connection(must(PgConnection::open(cluster.url(database)))) {
    must(connection.sql("CREATE SCHEMA s; CREATE TABLE s.numbers (n int)"));
  }
  std::string database;
  PgConnection connection;
};

TEST_CASE("a cluster is gone with its object, and its directory too") {
  std::string directory;
  int postmaster = 0;
  {
    const auto cluster = must(PgCluster::make({}));
    directory = cluster->directory();
    CHECK(std::stoi(one(must(cluster->sql("SHOW server_version_num")))) >= 150000);
    std::ifstream(directory + "/data/postmaster.pid") >> postmaster;
    CHECK(alive(postmaster));
  }
  CHECK_FALSE(alive(postmaster));
  CHECK_FALSE(std::filesystem::exists(directory));
}

TEST_CASE("a cluster with TLS serves connections that verify it, and refuses TCP without TLS") {
  const auto cluster = must(PgCluster::make({.tls = true}));
  Numbers numbers(*cluster);
  CHECK(one(must(numbers.connection.sql(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))) == "t");
  const std::string plain = PgCluster::tcp_url(cluster->port(), numbers.database);
  CHECK_FALSE(PgConnection::open(plain + "?sslmode=disable").has_value());
}

TEST_CASE("what was committed is there after every kind of end") {
  const auto cluster = must(PgCluster::make({}));
  Numbers numbers(*cluster);
  const auto put = [&](int n) {
    auto c = must(PgConnection::open(cluster->url(numbers.database)));
    must(c.sql(fmt::format("INSERT INTO s.numbers VALUES ({})", n)));
  };
  const auto count = [&] {
    return one(must(cluster->sql("SELECT count(*) FROM s.numbers", numbers.database)));
  };
  put(1);
  must(cluster->stop(PgCluster::Stop::fast));
  CHECK_FALSE(cluster->running());
  must(cluster->start());
  CHECK(count() == "1");
  put(2);
  must(cluster->stop(PgCluster::Stop::immediate));
  must(cluster->start());
  CHECK(count() == "2");
  put(3);
  cluster->kill9();
  CHECK_FALSE(cluster->running());
  CHECK(PgConnection::open(cluster->url(numbers.database)).error().code == ErrorCode::unavailable);
  must(cluster->start());
  CHECK(count() == "3");
}

TEST_CASE("a killed backend takes the others with it, and the server comes back by itself") {
  const auto cluster = must(PgCluster::make({}));
  Numbers numbers(*cluster);
  auto other = must(PgConnection::open(cluster->url(numbers.database)));
  must(other.sql("SELECT 1"));
  CHECK(cluster->backends().size() == 2);
  CHECK(cluster->backends()[0].doing == "idle");
  CHECK(cluster->times_ready() == 1);
  CHECK(cluster->kill_backend(numbers.connection.backend()));
  CHECK(cluster->await_ready(2));
  const auto lost = other.sql("SELECT 1");
  REQUIRE_FALSE(lost.has_value());
  CAPTURE(lost.error().message);
  CHECK(lost.error().code == ErrorCode::unavailable);
  CHECK(one(must(cluster->sql("SELECT 1"))) == "1");
  CHECK_FALSE(cluster->kill_backend(getpid()));
}

TEST_CASE("a paused server answers nothing until it is resumed") {
  const auto cluster = must(PgCluster::make({}));
  Numbers numbers(*cluster);
  cluster->pause();
  must(numbers.connection.send("SELECT 7"));
  const std::string late = cluster->url(numbers.database) + "&connect_timeout=2";
  CHECK(PgConnection::open(late).error().code == ErrorCode::unavailable);
  cluster->resume();
  CHECK(one(must(numbers.connection.answer())) == "7");
}

// What a process that is about to be killed says of its cluster.
struct Said {
  int postmaster = 0;
  int backend = 0;
  char directory[100] = {};
};

[[noreturn]] void make_and_pause(int out) {
  auto cluster = PgCluster::make({});
  if (!cluster) _exit(1);
  Said said;
  std::ifstream((*cluster)->directory() + "/data/postmaster.pid") >> said.postmaster;
  auto connection = PgConnection::open((*cluster)->url("postgres", "postgres"));
  said.backend = connection ? connection->backend() : 0;
  (*cluster)->directory().copy(said.directory, sizeof said.directory - 1);
  (*cluster)->pause();
  (void)!write(out, &said, sizeof said);
  for (;;) pause();
}

TEST_CASE("a paused cluster does not survive the death of its test") {
  int out[2];
  REQUIRE(pipe(out) == 0);
  const pid_t child = fork();
  if (child == 0) make_and_pause(out[1]);
  close(out[1]);
  Said said;
  REQUIRE(read(out[0], &said, sizeof said) == sizeof said);
  close(out[0]);
  CHECK(alive(said.postmaster));
  CHECK(alive(said.backend));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const SystemClock clock;
  const Instant end = clock.now().instant + seconds(20);
  while ((alive(said.postmaster) || alive(said.backend)) && clock.now().instant < end) {
    poll(nullptr, 0, 5);
  }
  CHECK_FALSE(alive(said.postmaster));
  CHECK_FALSE(alive(said.backend));
  // Its directory goes with the next one that is made.
  CHECK(std::filesystem::exists(said.directory));
  // (Its other processes may need a moment to end.)
  for (int i = 0; i < 1000 && std::filesystem::exists(said.directory); ++i) {
    if (i > 0) poll(nullptr, 0, 20);
    std::filesystem::remove_all(must(make_server_directory()));
  }
  CHECK_FALSE(std::filesystem::exists(said.directory));
}

TEST_CASE("settings, and a size that no file may exceed") {
  ClusterOptions options;
  options.settings = {"statement_timeout = 12345"};
  options.file_bytes = 20 << 20;
  const auto cluster = must(PgCluster::make(options));
  CHECK(one(must(cluster->sql("SHOW statement_timeout"))) == "12345ms");
  must(cluster->set("deadlock_timeout", "77ms"));
  CHECK(one(must(cluster->sql("SHOW deadlock_timeout"))) == "77ms");
  Numbers numbers(*cluster);
  const auto big =
      numbers.connection.sql("INSERT INTO s.numbers SELECT generate_series(1, 1000000)");
  REQUIRE_FALSE(big.has_value());
  CHECK(big.error().message.find("could not extend file") != std::string::npos);
}

TEST_CASE("the pooler hands one server connection to many clients") {
  const auto cluster = must(PgCluster::make({}));
  Numbers numbers(*cluster);
  const auto bouncer = must(PgBouncer::make(*cluster, 1));
  auto a = must(PgConnection::open(bouncer->url(numbers.database)));
  auto b = must(PgConnection::open(bouncer->url(numbers.database)));
  const std::string which = "SELECT pg_backend_pid()";
  CHECK(one(must(a.sql(which))) == one(must(b.sql(which))));
  bouncer->kill9();
  CHECK(a.sql(which).error().code == ErrorCode::unavailable);
  must(bouncer->start());
  auto again = must(PgConnection::open(bouncer->url(numbers.database)));
  CHECK(must(again.sql(which)).size() == 1);
}

TEST_CASE("the proxy passes, holds, delays, loses answers, cuts and refuses") {
  const auto cluster = must(PgCluster::make({}));
  Numbers numbers(*cluster);
  const auto proxy = must(TcpProxy::make(cluster->socket_path()));
  const std::string url =
      PgCluster::tcp_url(proxy->port(), numbers.database) + "?connect_timeout=2";
  const auto count = [&] { return one(must(numbers.connection.sql("TABLE s.numbers"))); };
  auto c = must(PgConnection::open(url));
  CHECK(one(must(c.sql("SELECT 1"))) == "1");
  CHECK(proxy->connections() == 1);

  proxy->set(TcpProxy::Mode::hold);
  must(c.send("SELECT 2"));
  CHECK_FALSE(PgConnection::open(url).has_value());
  proxy->set(TcpProxy::Mode::pass);
  CHECK(one(must(c.answer())) == "2");

  const SystemClock clock;
  proxy->delay(milliseconds(30));
  const Instant before = clock.now().instant;
  CHECK(one(must(c.sql("SELECT 3"))) == "3");
  CHECK(clock.now().instant - before >= milliseconds(60));
  proxy->delay(Duration(0));

  proxy->set(TcpProxy::Mode::deaf);
  must(c.send("INSERT INTO s.numbers VALUES (4)"));
  CHECK(proxy->await_lost(1, seconds(20)));
  CHECK(count() == "4");
  proxy->set(TcpProxy::Mode::refuse);
  CHECK(c.answer().error().code == ErrorCode::unavailable);
  CHECK_FALSE(PgConnection::open(url).has_value());

  proxy->set(TcpProxy::Mode::pass);
  auto d = must(PgConnection::open(url));
  proxy->cut();
  CHECK(d.sql("SELECT 5").error().code == ErrorCode::unavailable);
  CHECK(proxy->connections() == 0);
}

}  // namespace
}  // namespace mainspring::pg_testing
