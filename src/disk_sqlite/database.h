// Database: sql::Connection over SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sql_store/disk.h"

namespace mainspring::sqlite {

using sql::Connection;
using sql::damaged;
using sql::Disk;
using sql::DiskError;
using sql::DiskFault;
using sql::Query;
using sql::ResetGuard;
using sql::Snapshot;
using sql::Statement;
using sql::to_error;

class Database final : public Connection {
 public:
  // `vfs` "" = the system's. Read-only connections see committed data only.
  enum class Mode { read_write_create, read_write, read_only };
  Database(const std::string& path, Mode mode, const std::string& vfs);
  ~Database() override;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  std::unique_ptr<sql::Cursor> prepare(const Query& query) override;
  void begin(sql::Access access) override;
  void commit() override;
  void roll_back() override;
  bool changed_elsewhere() override;

  // Any number of statements.
  void execute(const Query& query);
  // Moves the write-ahead log into the database, unless that would have to wait. `shorten`: also
  // truncates the log file.
  void checkpoint_now(bool shorten);
  sqlite3* handle() const { return db_; }
  [[noreturn]] void fail(int code, std::string_view what) const;

 private:
  std::uint32_t data_version() const;

  sqlite3* db_ = nullptr;
  std::unique_ptr<sql::Cursor> begin_, commit_;  // of writes
  std::uint32_t data_version_ = 0;
};

// Rewrites the write-ahead log of an earlier process in place and syncs it, before the database is
// opened. If that process stopped at a failed fsync, the log may be complete in the page cache but
// not on the disk, while the kernel considers it written. Recovery would then use frames that the
// next power failure destroys. Source: https://wiki.postgresql.org/wiki/Fsync_Errors
void rewrite_log(const std::string& database, const std::string& vfs);

}  // namespace mainspring::sqlite
