// Statements of plain batches about jobs of sessions: see plain_sessions.cc.
#pragma once

#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct PlainSessionStatements {
  explicit PlainSessionStatements(std::string_view schema);
  Statement lock_there;         // sessions that there are, by queue and key, in that order
  Statement drop_empty;         // of those
  Statement enqueue, complete;  // both behind such a lock
  Statement states;             // of jobs
  Statement lock_jobs;          // in the order of their ids
};

}  // namespace mainspring::pg
