// Opens the database of a directory, and keeps its files in order.
#include "disk_sqlite/sqlite_disk.h"

#include <fmt/format.h>

#include "base/mutant.h"
#include "disk_sqlite/migrations.h"
#include "sql_store/sql_store.h"

namespace mainspring::sqlite {
namespace {

// Runs before any write: a database of another program stays unchanged.
void check_holds_store(Database& db, const std::string& directory) {
  if (schema_of(db) != 0) return;
  throw Error{
      .code = ErrorCode::conflict,
      .message = fmt::format("{} held a store and {}/mainspring.db has no tables: it will not be "
                             "replaced by an empty one. Restore it from a backup",
                             directory, directory)};
}

// On a disk without space for new pages, the log stays and is read in place.
void recover_log(Database& db, Space& space) {
  try {
    space.with_reserve([&] { db.execute("PRAGMA wal_checkpoint(TRUNCATE)"); });
  } catch (const DiskError& error) {
    if (error.fault != DiskFault::full) throw;
  }
}

}  // namespace

SqliteDisk::SqliteDisk(SqliteOptions options, std::unique_ptr<FileGuard> guard, Log& log)
    : options_(std::move(options)),
      path_(options_.directory + "/mainspring.db"),
      guard_(std::move(guard)),
      space_(guard_.get(), options_.directory, options_.checkpoint_pages, log) {}

void SqliteDisk::open() {
  space_.make_room_to_open();
  if (!MS_MUTANT(log_not_rewritten)) rewrite_log(path_, options_.vfs);
  Database& db = db_.emplace(path_, Database::Mode::read_write_create, options_.vfs);
  if (guard_ != nullptr && guard_->initialised()) check_holds_store(db, options_.directory);
  db.execute("PRAGMA page_size = 4096");
  db.execute("PRAGMA journal_mode = WAL");
  const bool synced = options_.synced && !MS_MUTANT(synchronous_off);
  db.execute(synced ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = OFF");
  // Move the log into the database file now, before any new write.
  recover_log(db, space_);
  db.execute("PRAGMA secure_delete = OFF");
  db.execute(fmt::format("PRAGMA wal_autocheckpoint = {}", space_.checkpoint_pages()).c_str());
  db.execute(fmt::format("PRAGMA journal_size_limit = {}", Space::kLongLogBytes).c_str());
  db.execute("PRAGMA temp_store = MEMORY");
  db.execute(fmt::format("PRAGMA cache_size = -{}", options_.cache_bytes / 1024).c_str());
  space_.with_reserve([&] { migrate(db); });
}

std::unique_ptr<Connection> SqliteDisk::reader() const {
  return std::make_unique<Database>(path_, Database::Mode::read_only, options_.vfs);
}

void SqliteDisk::commit() {
  db_->commit();
  // Before anything is acknowledged.
  const auto there = guard_ == nullptr ? Result<void>() : guard_->check_files();
  if (!there && !MS_MUTANT(removed_files_accepted))
    throw DiskError{DiskFault::failed, there.error().message};
}

bool SqliteDisk::refuses_new_jobs(Instant now) {
  if (guard_ != nullptr) space_.shorten_log(*db_, path_, now);
  return space_.still_full(*db_) || (options_.full && options_.full());
}

// Operations that free space or finish jobs may use the reserve; new jobs wait for space.
bool SqliteDisk::find_space() {
  const bool new_work = !space_.full();
  return space_.find_space(*db_) || new_work;
}

void SqliteDisk::check_pages(Connection& reader, std::vector<std::string>& problems) const {
  Statement integrity(reader, "PRAGMA integrity_check(20)");
  while (integrity.step()) {
    if (integrity.text(0) != "ok")
      problems.push_back(fmt::format("the file is damaged: {}", integrity.text(0)));
  }
}

void SqliteDisk::take_reserve() {
  if (!space_.take_reserve(*db_)) space_.refuse_new_jobs();
}

}  // namespace mainspring::sqlite

namespace mainspring {

Result<std::unique_ptr<Store>> open_sqlite_store(SqliteOptions options, Now now, Log& log) {
  std::unique_ptr<sqlite::FileGuard> guard;
  if (options.guard_files) {
    MS_TRY_ASSIGN(guard,
                  sqlite::FileGuard::lock(options.directory, options.directory + "/mainspring.db",
                                          options.reserve_bytes));
  }
  sqlite::FileGuard* const files = guard.get();
  const SqlStoreOptions of_store{.store = options.store,
                                 .kept_sessions = options.kept_sessions,
                                 .close_in_order = options.close_in_order,
                                 .packed_workflows = options.packed_workflows,
                                 .may_move = options.guard_files,
                                 .if_moved = options.if_moved};
  sqlite::SqliteDisk* disk = nullptr;
  std::unique_ptr<Store> store;
  try {
    auto opened = std::make_unique<sqlite::SqliteDisk>(std::move(options), std::move(guard), log);
    opened->open();
    disk = opened.get();
    store = open_sql_store(of_store, std::move(opened), now, log);
  } catch (const sql::DiskError& error) {
    log.debug("the store cannot be opened", {{"why", error.detail}});
    return sql::to_error(error);
  } catch (const Error& error) {
    return error;
  }
  if (files != nullptr) {
    MS_TRY(files->mark_initialised());
    disk->take_reserve();
    for (const std::string& file : files->were_open())
      log.warn("other users could access a file of the store; its mode is now 0600",
               {{"file", file}});
  }
  return store;
}

}  // namespace mainspring
