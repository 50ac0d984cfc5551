// What the rows of jobs say of their sessions, for those whose own rows lag behind
// (session_rows.cc).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "mainspring/job.h"
#include "store_sqlite/database.h"

namespace mainspring::sqlite {

struct JobsOfSession {
  std::int64_t jobs = 0;  // living
  JobId turn = 0;         // the one that does not wait; 0 = all do
};

// Rows of sessions that nobody holds, that are not stopped and have no state may lag behind their
// jobs. All three throw SqlError.
bool rows_of_sessions_lag(Database& db);
// By id of the session; a look at each job that lives. Of the turn of a session that is held it is
// not true.
std::unordered_map<std::int64_t, JobsOfSession> sessions_by_jobs(Database& db);
// From here on `sessions` in queries over `db` is what it would be if no row lagged. To be repeated
// after each change of the store.
void show_sessions_by_jobs(Database& db);

}  // namespace mainspring::sqlite
