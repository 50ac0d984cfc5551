// A consistent copy of a running store.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "disk_sqlite/migrations.h"
#include "disk_sqlite/sqlite_disk.h"
#include "env/private_files.h"
#include "queries_data.h"  // generated from sql/queries

namespace mainspring::sqlite {
namespace {

Result<void> sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool failed = fd < 0 || fsync(fd) != 0;
  if (fd >= 0) close(fd);
  if (!failed) return {};
  return Error{.code = ErrorCode::io_error,
               .message = fmt::format("syncing {}: {}", path, std::strerror(errno))};
}

// Also removes the journal: SQLite would apply it to the next draft.
void remove_draft(const std::string& draft) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"})
    (void)unlink((draft + suffix).c_str());
}

Result<void> write_copy(const std::string& from, const std::string& vfs, const std::string& file) {
  try {
    Database db(from, Database::Mode::read_only, vfs);
    Statement(db, "VACUUM INTO ?").bind(file).run();
    Database made(file, Database::Mode::read_write, "");
    Statement(made, queries::queues::mark_backup).run();
  } catch (const DiskError& error) {
    if (error.fault != DiskFault::full) return to_error(error);
    return Error{.code = ErrorCode::storage_full,
                 .message = fmt::format("{}: the disk is full: free space, or back up to another "
                                        "file system",
                                        file)};
  }
  return sync_file(file);
}

}  // namespace

// The copy is marked: its first open moves ids and tokens far ahead. Ids and tokens given after the
// copy was made are known to workers and clients, and must not be given again.
Result<void> SqliteDisk::backup(const std::string& directory) const {
  const std::string copy = directory + "/mainspring.db";
  MS_TRY_ASSIGN(const bool exists, database_exists(copy));
  if (exists) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("{} exists: a backup goes to a new directory", copy)};
  }
  try {
    Database db(path_, Database::Mode::read_only, options_.vfs);
    schema_of(db);
  } catch (const DiskError& error) {
    return to_error(error);
  } catch (const Error& error) {
    return error;
  }
  if (const int problem = make_private_directories(directory); problem != 0)
    return access_error("creating the backup's directory", directory, problem);
  // The copy gets its final name when it is complete: a partial copy never looks like a store.
  const std::string draft = copy + ".partial";
  remove_draft(draft);
  const int made = open_private(draft, O_RDWR | O_CREAT | O_EXCL);
  if (made < 0) return access_error("creating", draft, errno);
  close(made);
  auto written = write_copy(path_, options_.vfs, draft);
  if (written && std::rename(draft.c_str(), copy.c_str()) != 0)
    written = access_error("renaming", draft, errno);
  if (!written) {
    remove_draft(draft);
    return written;
  }
  MS_TRY_ASSIGN(auto guard, FileGuard::lock(directory, copy, 0));
  return guard->mark_initialised();
}

}  // namespace mainspring::sqlite
