// Database and Statement: SQLite with RAII, typed binds, and errors as one exception type that
// never leaves this module.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring::sqlite {

// Thrown by all functions here; caught where the module's functions return a Result.
struct SqlError {
  int code;             // SQLite's extended result code
  std::string message;  // for users: the path, the problem, what to do
  std::string detail{};  // for the log: the statement and SQLite's message
};
Error to_error(const SqlError& error);
// No space for a page or for the index of the write-ahead log. Nothing was written.
inline bool is_full(int code) {
  return (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE;
}

class Database {
 public:
  // `vfs` "" = the system's. Read-only connections see committed data only.
  enum class Mode { read_write_create, read_write, read_only };
  Database(const std::string& path, Mode mode, const std::string& vfs);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const char* sql);
  std::int64_t query_int(const char* sql);
  // Moves the write-ahead log into the database, unless that would have to wait. `shorten`: also
  // truncates the log file.
  void checkpoint_now(bool shorten);
  sqlite3* handle() const { return db_; }
  [[noreturn]] void fail(int code, std::string_view what) const;

 private:
  sqlite3* db_ = nullptr;
};

// Rewrites the write-ahead log of an earlier process in place and syncs it, before the database is
// opened. If that process stopped at a failed fsync, the log may be complete in the page cache but
// not on the disk, while the kernel considers it written. Recovery would then use frames that the
// next power failure destroys. Source: https://wiki.postgresql.org/wiki/Fsync_Errors
void rewrite_log(const std::string& database, const std::string& vfs);

// A prepared statement, created once and used many times. Call bind() in order, then step() until
// it returns false, then reset() before the next use (run() does all of it for a statement without
// rows). Bound text must live until the reset.
class Statement {
 public:
  Statement(Database& db, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <class... Args>
  Statement& bind(const Args&... args) {
    reset();
    int index = 0;
    (bind_one(++index, args), ...);
    return *this;
  }
  bool step();
  void run() {
    while (step()) {
    }
    reset();
  }
  void reset() { sqlite3_reset(statement_); }

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  // A value of an enumeration that ends with `last`; throws for other values, as on a damaged disk.
  template <class Enum>
  Enum one_of(int column, Enum last) const {
    const std::int64_t value = integer(column);
    if (value < 0 || value > static_cast<std::int64_t>(last)) fail_unknown(column, value);
    return static_cast<Enum>(value);
  }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  // Valid until the next step or reset. NULL is "".
  std::string_view text(int column) const {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return data == nullptr
               ? std::string_view()
               : std::string_view(
                     data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  void bind_one(int i, std::int64_t v) { check(sqlite3_bind_int64(statement_, i, v)); }
  void bind_one(int i, int v) { check(sqlite3_bind_int64(statement_, i, v)); }
  void bind_one(int i, double v) { check(sqlite3_bind_double(statement_, i, v)); }
  void bind_one(int i, std::nullptr_t) { check(sqlite3_bind_null(statement_, i)); }
  void bind_one(int i, std::string_view v) {
    check(sqlite3_bind_text(statement_, i, v.data() == nullptr ? "" : v.data(),
                            static_cast<int>(v.size()), SQLITE_STATIC));
  }
  struct Blob {
    std::string_view bytes;
  };
  void bind_one(int i, const Blob& v) {
    check(sqlite3_bind_blob(statement_, i, v.bytes.data(), static_cast<int>(v.bytes.size()),
                            SQLITE_STATIC));
  }
  template <class T>
  void bind_one(int i, const std::optional<T>& v) {
    if (v) {
      bind_one(i, *v);
    } else {
      bind_one(i, nullptr);
    }
  }
  void check(int code);
  [[noreturn]] void fail_unknown(int column, std::int64_t value) const;

  Database& db_;
  sqlite3_stmt* statement_ = nullptr;

 public:
  static Blob blob(std::string_view bytes) { return Blob{bytes}; }
  // "" becomes NULL.
  static std::optional<std::string_view> text_or_null(std::string_view v) {
    return v.empty() ? std::nullopt : std::optional<std::string_view>(v);
  }
};

// Resets a statement at the end of the scope, so that no read transaction stays open.
class ResetGuard {
 public:
  explicit ResetGuard(Statement& s) : statement_(s) {}
  ~ResetGuard() { statement_.reset(); }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  Statement& statement_;
};

// A read transaction, so that several statements see the same state.
class Snapshot {
 public:
  explicit Snapshot(Database& db) : db_(db) { db_.execute("BEGIN"); }
  ~Snapshot() { sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Database& db_;
};

}  // namespace mainspring::sqlite
