// Rows that a transaction has loaded, and a node's knowledge of queues.
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
#include "model/fair_keys.h"
#include "model/rate.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

// jobs.flags: sql/postgres/0001_schema.sql explains each bit.
inline constexpr int kFlagExtras = 1, kFlagExpired = 2, kFlagUnique = 4, kFlagErrors = 8,
                     kFlagCancel = 16,
                     kFlagFollowed = 32,  // its end makes something
    kFlagSession = 64,
                     kFlagIntoSession = 128,  // that job enters a session
    kFlagBlocks = 256, kFlagParks = 512,      // its death stops its session
    kFlagStep = 4096, kFlagUnknown = 8192,    // of a workflow
    kFlagDiesOfExpiry = 1024,                 // dead instead of cancelled
    kFlagMemos = 16384,
                     kFlagLimitKey = 2048;  // has a limit_key

// SQLSTATE raised by the trigger of a moved store.
inline constexpr std::string_view kMovedState = "MS001";

// The mutable part of a job, and the fields that decisions need. Times in microseconds, 0 = none.
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
  std::int64_t kept = 0;  // the longest lease that a renewal returned; 0 = never renewed
  std::int64_t run_at = 0, started_at = 0, finished_at = 0, expires_at = 0;
  std::int64_t created_at = 0;
  std::int64_t timeout = 0;   // as a count; kForever is stored unchanged
  std::int64_t schedule = 0;  // 0 = none
  int queue = 0, kind = 0;
  int budget = 20;
  std::string worker;
  std::string unique_key;
  std::string session;  // its key; "" = none
  int trigger_depth = 0;
  bool deferred = false;
  int lost = 0;                  // jobs.lost: this one, and
  int unstarted = 0;             // losses in a row that did not count
  std::int64_t quarantined = 0;  // quarantined since; 0 = not
};
bool waits_in_quarantine(const JobRow& row);
bool is_unstarted(const JobRow& row);
bool is_over_limit(const JobRow& row, std::int64_t now);
inline constexpr int kUnstartedUnit = kMaxLost + 1;  // of jobs.lost
// The flags of a new job's row.
int flags_of(const NewJob& job);
OnDead on_dead_of(int flags);
OnExpiry on_expiry_of(int flags);

// A job that a transaction has loaded.
struct LoadedJob {
  JobRow row;                    // as changed by the operations
  std::optional<JobRow> was;     // as in the database; nullopt = new
  bool removed = false;          // pruned
  bool touched = false;          // may differ from the database
  bool edited = false;           // rewrite its entry in `ready`, which may be packed
  std::int64_t fingerprint = 0;  // of its error, if it died since the last flush
  std::int64_t prune_at = 0;   // when it can be pruned, if it became terminal since the last flush
  std::optional<NewJob> body;  // of a new or replaced one
};

// Changes of a queue's counters by a transaction.
struct JobCountsChange {
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
};

struct LeaseOfJob {
  Token token = 0;
  std::int64_t until = 0;  // on the lease clock
  int flags = 0;
  int queue = 0;
  // It can be completed without reading its row: no schedule or workflow waits for its end, it has
  // no follow-ups and no memos, and its session is not held.
  bool simple = false;
  std::string session;
};
inline bool ends_simply(std::int64_t schedule, int flags) {
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
  std::optional<WallTime> opens_at;      // closed by its rate until this time
  std::optional<WallTime> keys_open_at;  // when the first of its closed keys opens
  bool removed = false;                  // as locked_queue() read it
};

QueuePause read_pause_text(const Rows& rows, int row, int column);
// Columns from `first`: limits, meter, opens_at, keys_open_at.
void read_limits_of(QueueInfo& queue, const Rows& rows, int row, int first);

// What this node assumes about a ready queue. Hints only: the database decides.
struct QueueHint {
  std::int64_t available = 0;  // as this node did and found; others may have added or taken
  bool uncertain = true;       // others may have added
  bool dry = false;            // a claim found nothing, and nothing was added since
  bool drifts = false;         // `available` was once a guess
  std::int64_t heads = 0;      // heads of sessions among the available, as far as known
  bool heads_uncertain = true, heads_dry = false, heads_drift = true;  // as above
  std::int64_t running = 0;                                            // of a queue with limits,
  bool running_uncertain = true;                                       // others may have ended
  // No available job of the priority has an earlier run_at, as far as this node knows.
  std::array<std::int64_t, kLowestPriority + 1> first{};
  Instant by_hand_until;  // completions of jobs in sessions: see fast_path_sessions.cc
  // The earliest run_at of jobs that became heads of sessions by the last completions.
  static constexpr std::int64_t kNoHeads = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, kLowestPriority + 1> heads_from = none_of_them();
  static constexpr std::array<std::int64_t, kLowestPriority + 1> none_of_them() {
    std::array<std::int64_t, kLowestPriority + 1> none{};
    none.fill(kNoHeads);
    return none;
  }
  bool packs = true;    // the queue may have packs;
  int per_pack = 0;     // average jobs per pack; 0 = unknown
  bool passed = false;  // a claim found too few and did not look everywhere
  Instant packs_at;     // when a claim under limits last looked for packs
  Instant looked_at;    // when the queue was last read from its beginning,
  Duration looking{0};  // and how long that took
};

}  // namespace mainspring::pg
