// The engine: order, leases, limits, sessions and counters in memory; each batch is written through
// to a disk in one durable commit. docs/internals/sql_store.md describes the tables.
#pragma once

#include <cstddef>
#include <memory>

#include "sql_store/disk.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace mainspring {

struct SqlStoreOptions {
  StoreOptions store;
  // Maximum sessions kept in memory without being held, about 400 bytes each. Raise it if more
  // sessions are busy at the same time.
  std::size_t kept_sessions = 131'072;
  // Limit of the bodies of recent jobs in memory. 0 = each claim reads them.
  std::size_t cached_body_bytes = 0;
  // Off: close like a killed process (tests).
  bool close_in_order = true;
  // Off: small workflows are stored like large ones (tests).
  bool packed_workflows = true;
  // Whether another process may move the store (simulated disks: no).
  bool may_move = true;
  // Whether a moved store is refused, or opened for reads only.
  IfMoved if_moved = IfMoved::refuse;
};

// Loads the store of a disk that has the newest schema. After a crash, the state is the last
// committed batch; every lease starts again. `now` is the time of opening. Throws DiskError, or
// Error: conflict (it has moved, or is an unfinished copy), io_error (damaged).
std::unique_ptr<Store> open_sql_store(SqlStoreOptions options, std::unique_ptr<sql::Disk> disk,
                                      Now now, Log& log);

}  // namespace mainspring
