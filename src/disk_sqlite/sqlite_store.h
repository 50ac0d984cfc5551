// The embedded store: a directory with a SQLite database. docs/internals/sql_store.md describes
// the layout.
//
//   DIR/mainspring.db      the database, WAL mode, synchronous=FULL
//   DIR/INITIALISED        marks an existing store: if the database is missing, open does not
//                          create a new one
//   DIR/OWNER              locked by the process that has the store open; contains its pid
//   DIR/RESERVE            space that is released on a full disk, so that jobs can still finish
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/store.h"
#include "telemetry/log.h"

namespace mainspring {

struct SqliteOptions {
  std::string directory;
  StoreOptions store;
  // Space reserved for finishing jobs on a full disk. Raise it for many running jobs with large
  // results.
  std::size_t reserve_bytes = 16 << 20;
  // SQLite's page cache of the writer. Raise for many queues with large backlogs.
  std::size_t cache_bytes = 48 << 20;
  // Pages in the write-ahead log after which it is moved into the database, which delays that
  // commit by milliseconds. Raise it for rarer and longer delays.
  int checkpoint_pages = 4000;
  // Maximum sessions kept in memory without being held, about 400 bytes each. Raise it if more
  // sessions are busy at the same time.
  std::size_t kept_sessions = 131'072;
  // Name of a registered SQLite VFS; "" = the system's. The simulator sets its own.
  std::string vfs;
  // Off: no OWNER, INITIALISED and RESERVE files (simulated disks).
  bool guard_files = true;
  // Off: close like a killed process (tests).
  bool close_in_order = true;
  // Off: small workflows are stored like large ones (tests).
  bool packed_workflows = true;
  // Off: commits are not synced to disk. They survive the end of the process, not of the machine.
  // For test servers.
  bool synced = true;
  // Called for each batch; while it returns true, new jobs are refused as on a full disk. For test
  // servers; empty = the disk decides.
  std::function<bool()> full{};
  // Whether a moved store is refused, or opened for reads only.
  IfMoved if_moved = IfMoved::refuse;
};

// Opens the store. Creates the directory and the store if they never existed, and applies missing
// migrations. After a crash, the state is the last committed batch; every lease starts again. `now`
// is the time of opening. Errors: conflict (another process owns it, with its pid; or the directory
// is initialised and its database is missing; or this program does not read its schema; or it has
// moved, or is an unfinished copy, with the other store), io_error, storage_full, invalid_argument
// (not a directory).
Result<std::unique_ptr<Store>> open_sqlite_store(SqliteOptions options, Now now, Log& log);

}  // namespace mainspring
