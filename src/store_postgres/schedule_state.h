// What the store holds in memory of leases by name and of schedules: rows that a transaction has
// locked, and the copy of schedules that reads answer from.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mainspring/lease.h"
#include "mainspring/schedule.h"

namespace mainspring::pg {

// A row of named_leases that the transaction has locked.
struct LeaseInHand {
  enum class State : std::uint8_t { held, released, expired, absent };
  State state = State::absent;
  bool exclusive = false;  // else it is locked against changes of others alone
  Token token = 0;
  std::int64_t ttl = 0, kept = 0;
  std::int64_t ends = 0;  // on the lease clock
  std::int64_t since = 0;
  std::string holder;
  std::string value;

  bool held(std::int64_t lease_now) const { return state == State::held && ends > lease_now; }
};

// A row of schedules that the transaction has locked.
struct ScheduleInHand {
  std::int64_t id = 0;  // 0 = there is none of this name
  ScheduleInfo info;    // but for live and buffered
  std::int64_t next_seq = 1;
  // Its jobs that have not ended, if they were needed.
  bool ties_known = false;
  std::set<JobId> live, waiting;
  bool live_is_ours = false;  // one of the live cannot end before this transaction
  std::set<JobId> unwritten;  // of those: their rows are not in the database yet
  // Ticks that have fired, of those nominal times that were asked for.
  struct Fired {
    std::int64_t version;
    JobId job;
  };
  std::map<std::int64_t, std::vector<Fired>> fired;
};

// What became of a job of a schedule, in this transaction.
struct TieChange {
  enum class To : std::uint8_t { live, waiting, gone };
  std::int64_t schedule = 0;
  JobId job = 0;
  To to = To::gone;
};

// A job of a schedule that has ended; those that waited for it have not been looked at.
struct EndedTie {
  JobId job = 0;
  std::int64_t schedule = 0;
  bool dead = false;
};

struct PublishedSchedule {
  std::int64_t id = 0;
  ScheduleInfo info;  // but for live and buffered
  std::set<JobId> live, waiting;
};

}  // namespace mainspring::pg
