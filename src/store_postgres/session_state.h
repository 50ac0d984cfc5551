// Sessions that a transaction has in hand.
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>

#include "mainspring/job.h"
#include "model/session.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

// In the order in which they are locked.
struct SessionName {
  int queue = 0;
  std::string key;
  friend auto operator<=>(const SessionName&, const SessionName&) = default;
};

// As the statements want them. Of names that outlive it.
struct NameColumns {
  explicit NameColumns(const std::set<SessionName>& names) {
    for (const SessionName& name : names) {
      queues.push_back(name.queue);
      keys.emplace_back(name.key);
    }
  }
  Ints queues;
  Texts keys;
};

// The row, without the state itself. Times in microseconds, 0 = none.
struct SessionRow {
  JobId turn = 0;
  JobId first = 0;        // nobody in the line has a lower id
  std::int64_t jobs = 0;  // living: that with the turn and the line
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  Token token = 0;  // of the holder; 0 = none
  std::int64_t lease = 0, kept = 0, lease_until = 0, look_at = 0;
  std::int64_t prune_at = 0, changed_at = 0;
  std::int64_t state_bytes = 0;
  std::string worker;
  friend bool operator==(const SessionRow&, const SessionRow&) = default;

  bool nothing_lives() const {
    return jobs == 0 && turn == 0 && token == 0 && stop == SessionStop::none;
  }
};

struct SessionInHand {
  SessionName name;
  std::int64_t id = 0;
  SessionRow row;  // as the operations want it
  // A job of it may end, or be stopped, in this batch: those that follow are locked with it.
  bool ends = false, held = false;
  bool touched = false;              // differs from what the database has, or may
  std::optional<JobId> next;         // the first of the line, 0 = it is empty; nullopt = not known
  std::optional<std::string> state;  // to be written
};

// Which sessions the operations of a batch are about.
struct SessionsNamed {
  std::set<SessionName> entered;  // by new jobs
  std::set<SessionName> ending;   // a job of them may end
  std::set<SessionName> held;     // by a worker: the job with the turn may change
  Ints unknown;                   // jobs that may be of some
  Ints telling;                   // jobs whose news may go into some
};

struct SessionOfJob {
  JobId job = 0;
  bool own = true;  // else what is made when it ends goes there
  SessionName name;
};

// A job of a session that has ended, and whose turn, or place in the line, is to be passed on.
struct EndedTurn {
  JobId job = 0;
  SessionName session;
  bool dead = false;
  OnDead on_dead = OnDead::skip;
};

}  // namespace mainspring::pg
