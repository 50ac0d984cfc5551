// In-memory state of named locks (leases) and schedules: rows that a transaction has locked, and
// the copy of schedules that serves reads.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mainspring/lease.h"
#include "mainspring/schedule.h"

namespace mainspring::pg {

// A row of named_leases that the transaction has locked.
struct LoadedLease {
  enum class State : std::uint8_t { held, released, expired, absent };
  State state = State::absent;
  bool exclusive = false;  // else the lock only prevents changes by others
  Token token = 0;
  std::int64_t ttl = 0, kept = 0;
  std::int64_t ends = 0;  // on the lease clock
  std::int64_t since = 0;
  std::string holder;
  std::string value;

  bool held(std::int64_t lease_now) const { return state == State::held && ends > lease_now; }
};

// A row of schedules that the transaction has locked.
struct LoadedSchedule {
  std::int64_t id = 0;  // 0 = no schedule of this name
  ScheduleInfo info;    // without live and buffered
  std::int64_t next_seq = 1;
  // Its jobs that have not ended, if they were loaded.
  bool links_known = false;
  std::set<JobId> live, waiting;
  bool live_is_ours = false;  // a live job cannot end before this transaction does
  std::set<JobId> unwritten;  // of those: rows not yet in the database
  // The fired ticks among the nominal times that were queried.
  struct Fired {
    std::int64_t version;
    JobId job;
  };
  std::map<std::int64_t, std::vector<Fired>> fired;
};

// The change of a schedule's job in this transaction.
struct LinkChange {
  enum class To : std::uint8_t { live, waiting, gone };
  std::int64_t schedule = 0;
  JobId job = 0;
  To to = To::gone;
};

// An ended job of a schedule; the jobs that waited for it are not processed yet.
struct EndedLink {
  JobId job = 0;
  std::int64_t schedule = 0;
  bool dead = false;
};

struct PublishedSchedule {
  std::int64_t id = 0;
  ScheduleInfo info;  // without live and buffered
  std::set<JobId> live, waiting;
};

}  // namespace mainspring::pg
