// Looking at a store's directory from outside, also while another process has it open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

struct StoreInfo {
  std::int64_t owner_pid = 0;  // who has it open; 0 = nobody
  std::int64_t schema = 0;
  std::int64_t newest_schema = 0;  // that this program knows
  std::int64_t database_bytes = 0;
  std::int64_t log_bytes = 0;  // of the write-ahead log
  std::int64_t reserve_bytes = 0;
  std::int64_t jobs = 0;  // kept, ended ones included
  std::int64_t queues = 0;
  std::int64_t schedules = 0;
  std::int64_t sessions = 0;
  std::int64_t leases = 0;  // by name, those that have expired and not been acquired since too
};

// Does the directory hold a database? Errors: io_error (it cannot be looked into: who may).
Result<bool> sqlite_store_exists(const std::string& directory);

// Errors: not_found (there is no store), conflict (the file is not a store, or has a schema that
// this program does not read), io_error.
Result<StoreInfo> inspect_sqlite_store(const std::string& directory);

// A consistent copy in a new directory, made by reading beside whoever has the store open; whoever
// opens the copy goes on with ids and tokens far ahead. Errors: not_found, conflict (`to` has a
// store, or this program does not read the schema), storage_full, io_error.
Result<void> backup_sqlite_store(const std::string& directory, const std::string& to);

// A job that waits for a time: for its run_at, or for its expiry.
struct DueJob {
  std::int64_t id = 0;
  std::string queue;
  bool retry = false;  // it waits after a failed attempt
  WallTime at;
};
// Reads, beside the process that has the store open, which jobs wait for a time up to `until`:
// earliest first, at most `limit` of each kind. Errors: not_found, io_error.
struct WaitingJobs {
  std::vector<DueJob> due;       // MoveDue makes them available
  std::vector<DueJob> expiring;  // ExpireJobs ends them, those that have started excepted
};
Result<WaitingJobs> due_sqlite_jobs(const std::string& directory, WallTime until, int limit);

// What SQLite finds wrong with pages and indexes; empty = nothing. Reads everything. Errors:
// not_found, io_error.
Result<std::vector<std::string>> check_sqlite_pages(const std::string& directory);

}  // namespace mainspring
