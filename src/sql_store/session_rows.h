// Session data derived from the rows of jobs, for sessions whose own rows are out of date
// (session_rows.cc).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "mainspring/job.h"
#include "sql_store/disk.h"

namespace mainspring::sql {

struct JobsOfSession {
  std::int64_t jobs = 0;  // live jobs
  JobId head = 0;         // the job that does not wait; 0 = all wait
};

// Whether rows of sessions that are not held, not stopped and without a state may be out of date.
// All three functions throw DiskError.
bool rows_of_sessions_lag(Connection& db);
// By session id; reads every live job. `head` is wrong for held sessions.
std::unordered_map<std::int64_t, JobsOfSession> sessions_by_jobs(Connection& db);
// Makes `sessions` in later queries over `db` show up-to-date rows. Call again after each change of
// the store.
void show_sessions_by_jobs(Connection& db);

}  // namespace mainspring::sql
