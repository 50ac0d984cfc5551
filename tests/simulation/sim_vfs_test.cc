// The simulated disk itself: real SQLite runs on it, and the faults work as specified.
#include "simulation/sim_vfs.h"

#include <doctest/doctest.h>

#include <string>

namespace mainspring::simulation {
namespace {

struct Connection {
  explicit Connection(const SimDisk& disk) {
    sqlite3_open_v2("/d/t.db", &db,
                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                    disk.vfs().c_str());
  }
  ~Connection() { sqlite3_close(db); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  int run(const std::string& sql) {
    return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  }
  std::string text(const std::string& sql) {
    std::string out;
    sqlite3_exec(
        db, sql.c_str(),
        [](void* to, int, char** values, char**) {
          *static_cast<std::string*>(to) = values[0] == nullptr ? "" : values[0];
          return 0;
        },
        &out, nullptr);
    return out;
  }
  bool wal() {
    return text("PRAGMA journal_mode=WAL") == "wal" && run("PRAGMA synchronous=FULL") == SQLITE_OK;
  }
  sqlite3* db = nullptr;
};

TEST_CASE("a writer and a reader share a database in WAL mode") {
  SimDisk disk("vfs_shared", 1);
  Connection writer(disk);
  REQUIRE(writer.wal());
  CHECK(writer.run("CREATE TABLE t(x)") == SQLITE_OK);
  Connection reader(disk);
  CHECK(reader.text("SELECT count(*) FROM t") == "0");
  CHECK(writer.run("BEGIN; INSERT INTO t VALUES(1)") == SQLITE_OK);
  CHECK(reader.text("SELECT count(*) FROM t") == "0");
  CHECK(writer.run("COMMIT") == SQLITE_OK);
  CHECK(reader.text("SELECT count(*) FROM t") == "1");
  CHECK(writer.text("PRAGMA integrity_check") == "ok");
}

// The promise under test: acknowledged commits survive any crash, in order.
TEST_CASE("with synchronous=FULL an acknowledged commit survives a crash at every call") {
  std::int64_t lost = 0;
  for (std::int64_t k = 1; k < 400; ++k) {
    SimDisk disk("vfs_crash", static_cast<std::uint64_t>(k));
    int acknowledged = 0;
    bool created = false;
    {
      Connection c(disk);
      disk.crash_after(k);
      c.wal();
      created = c.run("CREATE TABLE t(x, y)") == SQLITE_OK;
      for (int i = 1; i <= 30 && !disk.crashed(); ++i) {
        if (c.run("INSERT INTO t VALUES(" + std::to_string(i) + ", zeroblob(3000))") == SQLITE_OK)
          acknowledged = i;
      }
    }
    disk.reboot();
    Connection c(disk);
    CHECK(c.text("PRAGMA integrity_check") == "ok");
    if (created) {
      const int there = std::stoi(c.text("SELECT count(*) FROM t"));
      CHECK(there >= acknowledged);
      CHECK(there <= acknowledged + 1);
      CHECK(c.text("SELECT coalesce(max(x),0) FROM t") == std::to_string(there));
    }
    lost += disk.stats().lost_writes;
  }
  CHECK(lost > 100);
}

TEST_CASE("with synchronous=OFF acknowledged commits are lost: the disk is a real adversary") {
  int losses = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimDisk disk("vfs_off", seed);
    {
      Connection c(disk);
      c.wal();
      c.run("CREATE TABLE t(x)");
      c.run("PRAGMA synchronous=OFF");
      for (int i = 1; i <= 20; ++i) c.run("INSERT INTO t VALUES(1)");
      disk.crash();
    }
    disk.reboot();
    Connection c(disk);
    losses += c.text("SELECT count(*) FROM t") == "20" ? 0 : 1;
  }
  CHECK(losses > 5);
}

TEST_CASE("a full disk refuses growth with SQLITE_FULL and recovers") {
  SimDisk disk("vfs_full", 1);
  Connection c(disk);
  c.wal();
  CHECK(c.run("CREATE TABLE t(x)") == SQLITE_OK);
  disk.set_capacity(disk.used());
  CHECK(c.run("INSERT INTO t VALUES(zeroblob(100000))") == SQLITE_FULL);
  disk.set_capacity(kNoFault);
  CHECK(c.run("INSERT INTO t VALUES(zeroblob(100000))") == SQLITE_OK);
  CHECK(c.text("PRAGMA integrity_check") == "ok");
  CHECK(disk.stats().refused_full > 0);
}

TEST_CASE("a failed sync is reported and loses what it should have kept") {
  SimDisk disk("vfs_sync", 1);
  {
    Connection c(disk);
    c.wal();
    CHECK(c.run("CREATE TABLE t(x)") == SQLITE_OK);
    disk.fail_sync_after(1);
    CHECK((c.run("INSERT INTO t VALUES(1)") & 0xff) == SQLITE_IOERR);
    disk.crash();
  }
  disk.reboot();
  Connection c(disk);
  CHECK(c.text("SELECT count(*) FROM t") == "0");
}

}  // namespace
}  // namespace mainspring::simulation
