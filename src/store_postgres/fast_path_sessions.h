// Statements of fast-path batches on jobs of sessions: see fast_path_sessions.cc.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct FastPathSessionStatements {
  explicit FastPathSessionStatements(std::string_view schema);
  Statement lock_there;         // existing sessions, by queue and key, in that order
  Statement drop_empty;         // of existing sessions
  Statement enqueue, complete;  // both run after such a lock
  Statement states;             // of jobs
  Statement lock_jobs;          // in the order of their ids
};

}  // namespace mainspring::pg
