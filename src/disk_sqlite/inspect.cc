// Opens a store's database for reading while another process owns it.
#include "disk_sqlite/inspect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "disk_sqlite/database.h"
#include "disk_sqlite/migrations.h"
#include "disk_sqlite/sqlite_disk.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/session_rows.h"
#include "sql_store/store_impl.h"

namespace mainspring {
namespace {

using sqlite::Database;
using sqlite::DiskError;

std::string database_of(const std::string& directory) {
  return directory + "/mainspring.db";
}

std::int64_t size_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

Result<void> check_there(const std::string& directory) {
  MS_TRY_ASSIGN(const bool exists, sqlite::database_exists(database_of(directory)));
  if (exists) return {};
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("{} holds no store: there is no {}", directory,
                                      database_of(directory))};
}

// The pid in OWNER, if a process holds its lock.
std::int64_t owner_of(const std::string& directory) {
  const int fd = open((directory + "/OWNER").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::int64_t pid = 0;
  if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
    char text[32] = {};
    if (pread(fd, text, sizeof text - 1, 0) > 0) pid = std::strtoll(text, nullptr, 10);
  }
  close(fd);
  return pid;
}

}  // namespace

Result<bool> sqlite_store_exists(const std::string& directory) {
  return sqlite::database_exists(database_of(directory));
}

Result<StoreInfo> inspect_sqlite_store(const std::string& directory) {
  MS_TRY(check_there(directory));
  StoreInfo out;
  out.owner_pid = owner_of(directory);
  out.newest_schema = sqlite::newest_schema();
  out.log_bytes = size_of(database_of(directory) + "-wal");
  out.reserve_bytes = size_of(directory + "/RESERVE");
  out.database_bytes = size_of(database_of(directory));
  try {
    Database db(database_of(directory), Database::Mode::read_only, "");
    const sqlite::Snapshot snapshot(db);
    out.schema = sqlite::schema_of(db);
    if (out.schema == 0) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("{}: an empty database, not a Mainspring store",
                                          database_of(directory))};
    }
    out.queues = db.query_int(queries::queues::count);
    out.jobs = db.query_int(queries::jobs::count_all);
    out.schedules = db.query_int(queries::schedules::count);
    out.leases = db.query_int(queries::leases::count_held);
    show_sessions_by_jobs(db);
    out.sessions = db.query_int(queries::sessions::count);
  } catch (const DiskError& error) {
    return sqlite::to_error(error);
  } catch (const Error& error) {
    return error;
  }
  return out;
}

Result<StoreSize> size_of_sqlite_store(const std::string& directory) {
  MS_TRY(check_there(directory));
  StoreSize size{.kind = "sqlite", .directory = directory};
  size.wal_bytes = size_of(database_of(directory) + "-wal");
  try {
    Database db(database_of(directory), Database::Mode::read_only, "");
    const sqlite::Snapshot snapshot(db);
    const std::int64_t page = db.query_int("PRAGMA page_size");
    size.schema = db.query_int("PRAGMA user_version");
    size.bytes = db.query_int("PRAGMA page_count") * page;
    size.free_bytes = db.query_int("PRAGMA freelist_count") * page;
  } catch (const DiskError& error) {
    return sqlite::to_error(error);
  }
  return size;
}

Result<void> backup_sqlite_store(const std::string& directory, const std::string& to) {
  MS_TRY(check_there(directory));
  SqliteOptions options;
  options.directory = directory;
  NullLog log;
  return sqlite::SqliteDisk(std::move(options), nullptr, log).backup(to);
}

Result<Compaction> compact_sqlite_store(const std::string& directory,
                                        const std::function<void(std::int64_t)>& begun) {
  MS_TRY(inspect_sqlite_store(directory));
  const std::string database = database_of(directory);
  MS_TRY_ASSIGN(const auto guard, sqlite::FileGuard::lock(directory, database, 0));
  Compaction out{.before = size_of(database)};
  // The temporary file needs as much space as the store: use the store's file system.
  setenv("SQLITE_TMPDIR", directory.c_str(), 1);
  try {
    sqlite::rewrite_log(database, "");
    Database db(database, Database::Mode::read_write, "");
    db.execute("PRAGMA synchronous = FULL");
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    const std::int64_t pages =
        db.query_int("PRAGMA page_count") - db.query_int("PRAGMA freelist_count");
    if (begun) begun(pages * db.query_int("PRAGMA page_size"));
    db.execute("VACUUM");
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const DiskError& error) {
    return sqlite::to_error(error);
  }
  out.after = size_of(database);
  return out;
}

std::int64_t compacted_bytes(const std::string& directory) {
  return size_of(database_of(directory) + "-wal");
}

Result<WaitingJobs> due_sqlite_jobs(const std::string& directory, WallTime until, int limit) {
  MS_TRY(check_there(directory));
  constexpr std::int64_t kRetryable = 5;
  const auto read = [&](Database& db, const sql::Query& query, std::vector<DueJob>& out) {
    sqlite::Statement rows(db, query);
    rows.bind(until.us(), std::int64_t{limit});
    while (rows.step()) {
      out.push_back({.id = rows.integer(0),
                     .queue = std::string(rows.text(1)),
                     .retry = rows.integer(2) == kRetryable,
                     .at = WallTime::from_us(rows.integer(3))});
    }
  };
  WaitingJobs out;
  try {
    Database db(database_of(directory), Database::Mode::read_only, "");
    const sqlite::Snapshot snapshot(db);
    read(db, queries::jobs::waiting_due, out.due);
    read(db, queries::jobs::waiting_expiring, out.expiring);
  } catch (const DiskError& error) {
    return sqlite::to_error(error);
  } catch (const Error& error) {
    return error;
  }
  return out;
}

Result<std::vector<std::string>> check_sqlite_pages(const std::string& directory) {
  MS_TRY(check_there(directory));
  std::vector<std::string> problems;
  try {
    Database db(database_of(directory), Database::Mode::read_only, "");
    sqlite::Statement check(db, "PRAGMA integrity_check(100)");
    while (check.step()) {
      const std::string line(check.text(0));
      if (line != "ok") problems.push_back(line);
    }
  } catch (const DiskError& error) {
    problems.push_back(error.message);
  }
  return problems;
}

}  // namespace mainspring
