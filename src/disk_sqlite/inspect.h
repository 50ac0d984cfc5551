// Inspects a store's directory from outside, also while another process has the store open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"
#include "store/store_size.h"

namespace mainspring {

struct StoreInfo {
  std::int64_t owner_pid = 0;  // the process that has it open; 0 = none
  std::int64_t schema = 0;
  std::int64_t newest_schema = 0;  // newest schema of this program
  std::int64_t database_bytes = 0;
  std::int64_t log_bytes = 0;  // of the write-ahead log
  std::int64_t reserve_bytes = 0;
  std::int64_t jobs = 0;  // stored, including ended ones
  std::int64_t queues = 0;
  std::int64_t schedules = 0;
  std::int64_t sessions = 0;
  std::int64_t leases = 0;  // named locks, including expired ones not acquired since
};

// Whether the directory contains a database. Errors: io_error (no access; with owner and mode).
Result<bool> sqlite_store_exists(const std::string& directory);

// Errors: not_found (no store), conflict (the file is not a store, or has a schema that this
// program does not read), io_error.
Result<StoreInfo> inspect_sqlite_store(const std::string& directory);

// The sizes alone, from the header of the database and the files: reads no rows. Errors: not_found,
// io_error.
Result<StoreSize> size_of_sqlite_store(const std::string& directory);

// Writes a consistent copy to a new directory by reading, also while another process has the store
// open. When the copy is opened, its ids and tokens continue far ahead. Errors: not_found, conflict
// (`to` contains a store, or this program does not read the schema), storage_full, io_error.
Result<void> backup_sqlite_store(const std::string& directory, const std::string& to);

// A job that waits for a time: its run_at or its expiry.
struct DueJob {
  std::int64_t id = 0;
  std::string queue;
  bool retry = false;  // waits after a failed attempt
  WallTime at;
};
// Reads which jobs wait for a time up to `until`, earliest first, at most `limit` of each kind.
// Works while another process has the store open. Errors: not_found, io_error.
struct WaitingJobs {
  std::vector<DueJob> due;       // MoveDue makes them available
  std::vector<DueJob> expiring;  // ExpireJobs ends them, except started jobs
};
Result<WaitingJobs> due_sqlite_jobs(const std::string& directory, WallTime until, int limit);

// Rewrites the database without its free pages, so that its file shrinks. Needs the store for
// itself and, for that time, free space twice as large as what the store contains. If it is
// interrupted, the store is unchanged.
struct Compaction {
  std::int64_t before = 0, after = 0;  // bytes of the file
};
// `begun` is called with the bytes that will be written. Errors: not_found, conflict (another
// process has the store open, with its pid), storage_full, io_error.
Result<Compaction> compact_sqlite_store(const std::string& directory,
                                        const std::function<void(std::int64_t)>& begun);
// How many of those bytes are written. Any thread.
std::int64_t compacted_bytes(const std::string& directory);

// SQLite's integrity check of pages and indexes; empty = no problem. Reads everything. Errors:
// not_found, io_error.
Result<std::vector<std::string>> check_sqlite_pages(const std::string& directory);

}  // namespace mainspring
