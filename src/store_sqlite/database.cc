// Database and Statement: a C++ layer over the C interface of SQLite.
#include "store_sqlite/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "env/private_files.h"

namespace mainspring::sqlite {
namespace {

constexpr int kBusyMs = 10'000;  // how long a statement waits for another program's lock

// What the code means for the file at `path`, and what to do about it.
std::string explain(int code, const std::string& path) {
  if (is_full(code))
    return fmt::format("{}: the disk is full: free space on its file system", path);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fmt::format("{}: another program holds its lock: end that program", path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fmt::format("{}: damaged, truncated or not a database: restore it from a backup",
                         path);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return fmt::format("{}: cannot be opened for writing: {}", path, describe_access(path));
    case SQLITE_IOERR:
      return fmt::format(
          "{}: the disk failed to read or write (code {}): check the disk and the kernel's log, "
          "then restart the server",
          path, code);
    case SQLITE_NOMEM:
      return fmt::format("{}: out of memory", path);
    case SQLITE_INTERRUPT:
      return fmt::format("{}: interrupted", path);
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
      return fmt::format(
          "{}: its tables are not those of a complete Mainspring store (code {}): "
          "restore it from a backup",
          path, code);
    default:
      return fmt::format("{}: the database failed (code {})", path, code);
  }
}

}  // namespace

Error to_error(const SqlError& error) {
  const ErrorCode code = is_full(error.code) ? ErrorCode::storage_full : ErrorCode::io_error;
  return Error{.code = code, .message = error.message};
}

Database::Database(const std::string& path, Mode mode, const std::string& vfs) {
  // Once per process: SQLite's memory statistics cost a global mutex on every allocation.
  [[maybe_unused]] static const int no_statistics = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= mode == Mode::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::read_write_create) flags |= SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &db_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (code != SQLITE_OK) {
    const std::string why = db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
    sqlite3_close(db_);
    throw SqlError{code, explain(code, path), fmt::format("opening: {}", why)};
  }
  sqlite3_busy_timeout(db_, kBusyMs);
}

Database::~Database() {
  sqlite3_close_v2(db_);
}

void Database::fail(int code, std::string_view what) const {
  // An exhausted quota counts as a full disk.
  if (code == SQLITE_IOERR_WRITE && sqlite3_system_errno(db_) == EDQUOT) code = SQLITE_FULL;
  const char* path = sqlite3_db_filename(db_, "main");
  throw SqlError{code, explain(code, path == nullptr ? "the store" : path),
                 fmt::format("{}: {} (SQLite {})", what, sqlite3_errmsg(db_), code)};
}

void Database::execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, std::string_view(sql).substr(0, 200));
}

std::int64_t Database::query_int(const char* sql) {
  Statement statement(*this, sql);
  return statement.bind().step() ? statement.integer(0) : 0;
}

void Database::checkpoint_now(bool shorten) {
  sqlite3_busy_timeout(db_, 0);
  const int code = sqlite3_wal_checkpoint_v2(
      db_, "main", shorten ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART, nullptr,
      nullptr);
  sqlite3_busy_timeout(db_, kBusyMs);
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) fail(code, "checkpoint");
}

void rewrite_log(const std::string& database, const std::string& vfs_name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name.empty() ? nullptr : vfs_name.c_str());
  const std::string log = database + "-wal";
  const auto check = [&](int code) {
    if (code == SQLITE_OK) return;
    throw SqlError{code, explain(code, log), fmt::format("rewriting: {}", sqlite3_errstr(code))};
  };
  int exists = 0;
  check(vfs->xAccess(vfs, log.c_str(), SQLITE_ACCESS_EXISTS, &exists));
  if (exists == 0) return;
  std::vector<std::max_align_t> space(
      static_cast<std::size_t>(vfs->szOsFile) / sizeof(std::max_align_t) + 1);
  auto* file = reinterpret_cast<sqlite3_file*>(space.data());
  int flags = 0;
  check(vfs->xOpen(vfs, log.c_str(), file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, &flags));
  const auto rewrite = [&] {
    constexpr sqlite3_int64 kChunk = 64 << 10;  // the system VFS splits writes at 128 KiB
    std::string chunk(kChunk, '\0');
    sqlite3_int64 size = 0;
    int code = file->pMethods->xFileSize(file, &size);
    for (sqlite3_int64 at = 0; code == SQLITE_OK && at < size; at += kChunk) {
      const int n = static_cast<int>(std::min(kChunk, size - at));
      code = file->pMethods->xRead(file, chunk.data(), n, at);
      if (code == SQLITE_OK) code = file->pMethods->xWrite(file, chunk.data(), n, at);
    }
    return code == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : code;
  };
  const int code = rewrite();
  file->pMethods->xClose(file);
  check(code);
}

Statement::Statement(Database& db, const char* sql) : db_(db) {
  const int code =
      sqlite3_prepare_v3(db.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  if (code != SQLITE_OK) db.fail(code, sql);
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

void Statement::check(int code) {
  if (code != SQLITE_OK) db_.fail(code, "binding a value");
}

void Statement::fail_unknown(int column, std::int64_t value) const {
  throw SqlError{SQLITE_CORRUPT, fmt::format("the store is damaged: {} has the unknown value {}",
                                             sqlite3_column_name(statement_, column), value)};
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const std::string what = sqlite3_sql(statement_);
  try {
    db_.fail(code, what);
  } catch (...) {
    sqlite3_reset(statement_);
    throw;
  }
}

}  // namespace mainspring::sqlite
