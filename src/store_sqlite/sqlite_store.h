// The embedded store: a directory with a SQLite database in it. docs/internals/store_sqlite.md
// draws the layout.
//
//   DIR/mainspring.db      the database, WAL mode, synchronous=FULL
//   DIR/INITIALISED        "this store exists": without the database beside it, open refuses to
//   create one DIR/OWNER              locked by the one process that has the store open; holds its
//   pid DIR/RESERVE            space that is given up when the disk is full, so that finishing
//   still works
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
  // What is kept aside for finishing on a full disk. Raise for many running jobs with large
  // results.
  std::size_t reserve_bytes = 16 << 20;
  // SQLite's page cache of the writer. Raise for many queues with large backlogs.
  std::size_t cache_bytes = 48 << 20;
  // Pages in the write-ahead log after which it is folded into the database, which stalls that
  // commit for milliseconds. Raise for rarer and longer stalls.
  int checkpoint_pages = 4000;
  // Sessions that nobody holds and that stay in memory all the same, about 400 bytes each. Raise
  // for more of them that are busy at the same time.
  std::size_t kept_sessions = 131'072;
  // Name of a registered SQLite VFS; "" = the system's. The simulator gives its own.
  std::string vfs;
  // Off: no OWNER, INITIALISED and RESERVE files (simulated disks).
  bool guard_files = true;
  // Off: it closes as if its process had been killed (tests).
  bool close_in_order = true;
  // Off: small workflows are stored as large ones are. For tests of that form.
  bool packed_workflows = true;
  // Off: commits are not synced to disk. They survive the end of the process, not of the machine.
  // For test servers.
  bool synced = true;
  // Asked with each batch: new jobs are refused as on a full disk while it returns true. For test
  // servers; empty = the disk decides.
  std::function<bool()> full{};
  // A store that goes on elsewhere is opened for nothing but reads.
  IfMoved if_moved = IfMoved::refuse;
};

// Opens, creating directory and store if they were never there, and applies missing migrations.
// After an unclean end the last committed batch is the state; every lease begins anew. `now` is the
// time of opening. Errors: conflict (another process owns it: the message has its pid; or it was
// initialised and its database is gone; or this program does not read its schema; or it has moved,
// or is an unfinished copy: the message says of what), io_error, storage_full, invalid_argument
// (not a directory).
Result<std::unique_ptr<Store>> open_sqlite_store(SqliteOptions options, Now now, Log& log);

}  // namespace mainspring
