// A connection over the C interface of SQLite.
#include "disk_sqlite/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "env/private_files.h"

namespace mainspring::sqlite {
namespace {

constexpr int kBusyMs = 10'000;  // how long a statement waits for another program's lock

// No space for a page or for the index of the write-ahead log. Nothing was written.
bool is_full(int code) {
  return (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE;
}

DiskFault fault_of(int code) {
  if (is_full(code)) return DiskFault::full;
  switch (code & 0xff) {
    case SQLITE_BUSY:
      return DiskFault::busy;
    case SQLITE_INTERRUPT:
      return DiskFault::interrupted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DiskFault::damaged;
    default:
      return DiskFault::failed;
  }
}

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

class SqliteCursor final : public sql::Cursor {
 public:
  SqliteCursor(Database& db, const char* text) : db_(db) {
    const int code =
        sqlite3_prepare_v3(db.handle(), text, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
    if (code != SQLITE_OK) db.fail(code, text);
  }
  ~SqliteCursor() override { sqlite3_finalize(statement_); }
  SqliteCursor(const SqliteCursor&) = delete;
  SqliteCursor& operator=(const SqliteCursor&) = delete;

  void start(std::span<const sql::Value> values) override {
    reset();
    int index = 0;
    for (const sql::Value& value : values) {
      const int code = bind(++index, value);
      if (code != SQLITE_OK) db_.fail(code, "binding a value");
    }
  }
  bool step() override {
    used_ = true;
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
  void reset() override {
    if (used_) sqlite3_reset(statement_);
    used_ = false;
  }
  std::int64_t changes() override { return sqlite3_changes(db_.handle()); }
  std::int64_t integer(int column) const override {
    return sqlite3_column_int64(statement_, column);
  }
  double real(int column) const override { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  std::string_view text(int column) const override {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    if (data == nullptr) return {};
    return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::string column_name(int column) const override {
    return sqlite3_column_name(statement_, column);
  }

 private:
  int bind(int index, const sql::Value& value) {
    using Type = sql::Value::Type;
    const int size = static_cast<int>(value.size);
    switch (value.type) {
      case Type::integer:
        return sqlite3_bind_int64(statement_, index, value.integer);
      case Type::real:
        return sqlite3_bind_double(statement_, index, value.real);
      case Type::text:
        return sqlite3_bind_text(statement_, index, value.size == 0 ? "" : value.data, size,
                                 SQLITE_STATIC);
      case Type::bytes:
        return sqlite3_bind_blob(statement_, index, value.size == 0 ? "" : value.data, size,
                                 SQLITE_STATIC);
      case Type::null:
        break;
    }
    return sqlite3_bind_null(statement_, index);
  }

  Database& db_;
  sqlite3_stmt* statement_ = nullptr;
  bool used_ = false;  // since the last reset
};

}  // namespace

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
    throw DiskError{fault_of(code), explain(code, path), fmt::format("opening: {}", why)};
  }
  sqlite3_busy_timeout(db_, kBusyMs);
}

Database::~Database() {
  begin_.reset(), commit_.reset();
  sqlite3_close_v2(db_);
}

std::unique_ptr<sql::Cursor> Database::prepare(const Query& query) {
  return std::make_unique<SqliteCursor>(*this, query.text);
}

void Database::begin(sql::Access access) {
  if (access == sql::Access::read) return execute("BEGIN");
  if (!begin_) begin_ = prepare("BEGIN IMMEDIATE");
  begin_->start({});
  begin_->step();
  begin_->reset();
}

void Database::commit() {
  if (!commit_) commit_ = prepare("COMMIT");
  commit_->start({});
  commit_->step();
  commit_->reset();
  data_version_ = data_version();
}

void Database::roll_back() {
  // After some errors SQLite has already rolled back: then there is nothing to undo.
  if (sqlite3_get_autocommit(db_) == 0) execute("ROLLBACK");
}

std::uint32_t Database::data_version() const {
  std::uint32_t version = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

bool Database::changed_elsewhere() {
  const std::uint32_t version = data_version();
  return std::exchange(data_version_, version) != version;
}

void Database::fail(int code, std::string_view what) const {
  // An exhausted quota counts as a full disk.
  if (code == SQLITE_IOERR_WRITE && sqlite3_system_errno(db_) == EDQUOT) code = SQLITE_FULL;
  const char* path = sqlite3_db_filename(db_, "main");
  throw DiskError{fault_of(code), explain(code, path == nullptr ? "the store" : path),
                  fmt::format("{}: {} (SQLite {})", what, sqlite3_errmsg(db_), code)};
}

void Database::execute(const Query& query) {
  const int code = sqlite3_exec(db_, query.text, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, std::string_view(query.text).substr(0, 200));
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
    throw DiskError{fault_of(code), explain(code, log),
                    fmt::format("rewriting: {}", sqlite3_errstr(code))};
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

}  // namespace mainspring::sqlite
