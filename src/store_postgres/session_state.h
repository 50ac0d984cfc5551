// Sessions that a transaction has loaded.
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>

#include "mainspring/job.h"
#include "model/session.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

// Ordered as they are locked.
struct SessionName {
  int queue = 0;
  std::string key;
  friend auto operator<=>(const SessionName&, const SessionName&) = default;
};

// The names as columns for statements. References names that must outlive it.
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

// The row without the state's content. Times in microseconds, 0 = none.
struct SessionRow {
  JobId head = 0;
  JobId first = 0;        // no waiting job has a lower id
  std::int64_t jobs = 0;  // live jobs: the head and the waiting jobs
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  Token token = 0;  // of the holder; 0 = none
  std::int64_t lease = 0, kept = 0, lease_until = 0, look_at = 0;
  std::int64_t prune_at = 0, changed_at = 0;
  std::int64_t state_bytes = 0;
  std::string worker;
  friend bool operator==(const SessionRow&, const SessionRow&) = default;

  bool nothing_lives() const {
    return jobs == 0 && head == 0 && token == 0 && stop == SessionStop::none;
  }
};

struct LoadedSession {
  SessionName name;
  std::int64_t id = 0;
  SessionRow row;  // as changed by the operations
  // A job of it may end or be stopped in this batch: the jobs that follow are locked with it.
  bool ends = false, held = false;
  bool touched = false;              // may differ from the database
  std::optional<JobId> next;         // the first waiting job, 0 = none; nullopt = unknown
  std::optional<std::string> state;  // to be written
};

// The sessions that the operations of a batch affect.
struct SessionsNamed {
  std::set<SessionName> entered;  // by new jobs
  std::set<SessionName> ending;   // a job of them may end
  std::set<SessionName> held;     // held by a worker: the head may change
  Ints unknown;                   // jobs that may belong to some
  Ints telling;                   // jobs whose follow-ups on messages may enter some
};

struct SessionOfJob {
  JobId job = 0;
  bool own = true;  // else its follow-ups enter it
  SessionName name;
};

// An ended job of a session: a new head, or its waiting entry, must be processed.
struct EndedHead {
  JobId job = 0;
  SessionName session;
  bool dead = false;
  OnDead on_dead = OnDead::skip;
};

}  // namespace mainspring::pg
