// Rows that a transaction has in hand, and what a node knows of queues.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/limits.h"
#include "model/rate.h"
#include "model/turns.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

// jobs.flags: sql/postgres/0001_schema.sql explains them.
inline constexpr int kFlagExtras = 1, kFlagExpired = 2, kFlagUnique = 4, kFlagErrors = 8,
                     kFlagCancel = 16,
                     kFlagFollowed = 32,  // something is made when it ends
    kFlagSession = 64,
                     kFlagIntoSession = 128,  // what is made then goes into a session
    kFlagBlocks = 256, kFlagParks = 512,      // its session, if it dies
    kFlagStep = 4096, kFlagUnknown = 8192,    // of a workflow
    kFlagDiesOfExpiry = 1024,                 // dead instead of cancelled
    kFlagMemos = 16384,
                     kFlagLimitKey = 2048;  // it has one

// Of what the trigger of a store that has moved raises.
inline constexpr std::string_view kMovedState = "MS001";

// The changing part of a job, and what decides about it. Times in microseconds, 0 = none.
struct JobRow {
  JobId id = 0;
  JobState state = JobState::waiting;
  int flags = 0;
  int priority = 5;
  int attempt = 0;
  int max_attempts = 20;
  std::int64_t version = 1;
  Token token = 0;
  std::int64_t lease_until = 0, lease = 0, claimed_at = 0;  // on the lease clock
  std::int64_t run_at = 0, started_at = 0, finished_at = 0, expires_at = 0;
  std::int64_t created_at = 0;
  std::int64_t timeout = 0;   // as a count; kForever is kept as it is
  std::int64_t schedule = 0;  // 0 = none
  int queue = 0, kind = 0;
  int budget = 20;
  std::string worker;
  std::string unique_key;
  std::string session;  // its key; "" = none
  int trigger_depth = 0;
  bool deferred = false;
  int lost = 0;                  // see schema 20
  std::int64_t quarantined = 0;  // since
};
bool waits_in_quarantine(const JobRow& row);
// Of the row of a new job.
int flags_of(const NewJob& job);
OnDead on_dead_of(int flags);
OnExpiry on_expiry_of(int flags);

// What a transaction has in hand of a job.
struct JobInHand {
  JobRow row;                  // as the operations want it
  std::optional<JobRow> was;   // as the database has it; nullopt = it is new
  bool removed = false;        // pruned
  bool touched = false;        // differs, or may
  bool edited = false;         // its entry in `ready` is written again: it may be a packed one
  std::int64_t prune_at = 0;   // it became terminal since the last flush: when it may go
  std::optional<NewJob> body;  // of a new or replaced one
};

// Counters of a queue that a transaction changes.
struct TallyChange {
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
};

struct LeaseOfJob {
  Token token = 0;
  std::int64_t until = 0;  // on the lease clock
  int flags = 0;
  int queue = 0;
  // It can be completed without looking: no schedule or workflow waits for its end, and nothing
  // follows it; it has no memos, and nobody holds its session.
  bool plain = false;
  std::string session;
};
inline bool ends_plainly(std::int64_t schedule, int flags) {
  return schedule == 0 && (flags & (kFlagFollowed | kFlagStep | kFlagMemos)) == 0;
}

// A claim of this node: its row in `leased`.
struct GivenClaim {
  std::int64_t look_at = 0, seq = 0;
  Ints ids;
};

struct QueueInfo {
  int id = 0;
  std::string name;
  bool paused = false;
  std::optional<QueuePause> pause;  // while it is paused
  std::optional<std::int64_t> retention_completed, retention_dead;
  QueueLimits limits;
  RateMeter meter;                       // of limits.rate, as this node saw it last
  std::optional<WallTime> opens_at;      // closed by that rate until then
  std::optional<WallTime> keys_open_at;  // the first of its keys that are closed by theirs
  bool removed = false;                  // as locked_queue() read it
};

QueuePause read_pause_text(const Rows& rows, int row, int column);
// Columns from `first`: limits, meter, opens_at, keys_open_at.
void read_limits_of(QueueInfo& queue, const Rows& rows, int row, int first);

// What this node believes of the line of a queue. Hints: the database decides.
struct QueueHint {
  std::int64_t available = 0;  // by what this node did and found; others may have added or taken
  bool uncertain = true;       // others may have added
  bool dry = false;            // a claim found nothing, and nothing has come since
  bool drifts = false;         // `available` was a guess once
  std::int64_t heads = 0;      // those of sessions among the available, as far as this node knows
  bool heads_uncertain = true, heads_dry = false, heads_drift = true;  // as above
  std::int64_t running = 0;       // of those of a queue with limits,
  bool running_uncertain = true;  // others may have ended
  // No available job of the priority has an earlier run_at, as far as this node knows.
  std::array<std::int64_t, kLowestPriority + 1> first{};
  Instant by_hand_until;  // completions of jobs of sessions: see plain_sessions.cc
  // The earliest run_at of those that got the turn of a session with the last completions.
  static constexpr std::int64_t kNoTurns = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, kLowestPriority + 1> turns_from = none_of_them();
  static constexpr std::array<std::int64_t, kLowestPriority + 1> none_of_them() {
    std::array<std::int64_t, kLowestPriority + 1> none{};
    none.fill(kNoTurns);
    return none;
  }
  bool bundles = true;  // there may be some,
  int per_bundle = 0;   // and of about so many jobs they are; 0 = not known
  bool passed = false;  // a claim found too little, and did not look everywhere
  Instant bundles_at;   // when a claim under limits last looked for some
  Instant looked_at;    // when the line was last read from its beginning,
  Duration looking{0};  // and how long that took
};

}  // namespace mainspring::pg
