// Database and Statement over the C interface of SQLite.
#include "store_sqlite/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mainspring::sqlite {

Error to_error(const SqlError& error) {
  const ErrorCode code = is_full(error.code) ? ErrorCode::storage_full : ErrorCode::io_error;
  return Error{.code = code, .message = error.message};
}

Error open_error(const SqlError& error, const std::string& path) {
  const int primary = error.code & 0xff;
  if (primary != SQLITE_CORRUPT && primary != SQLITE_NOTADB) return to_error(error);
  return Error{
      .code = ErrorCode::io_error,
      .message = fmt::format("{}: damaged, truncated or not a SQLite database: restore it from a "
                             "backup ({})",
                             path, error.message)};
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
    throw SqlError{code, fmt::format("opening the store {}: {}", path, why)};
  }
  sqlite3_busy_timeout(db_, 10'000);
}

Database::~Database() {
  sqlite3_close_v2(db_);
}

void Database::fail(int code, std::string_view what) const {
  throw SqlError{code, fmt::format("{}: {} (SQLite {})", what, sqlite3_errmsg(db_), code)};
}

void Database::execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, std::string_view(sql).substr(0, 200));
}

std::int64_t Database::query_int(const char* sql) {
  Statement statement(*this, sql);
  return statement.bind().step() ? statement.integer(0) : 0;
}

void rewrite_log(const std::string& database, const std::string& vfs_name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name.empty() ? nullptr : vfs_name.c_str());
  const std::string log = database + "-wal";
  const auto check = [&](int code) {
    if (code == SQLITE_OK) return;
    throw SqlError{code, fmt::format("rewriting {}: {}", log, sqlite3_errstr(code))};
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
    constexpr sqlite3_int64 kChunk = 64 << 10;  // the system VFS cuts writes at 128 KiB
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
