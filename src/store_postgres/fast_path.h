// Data of fast-path batches: see fast_path.cc.
#pragma once

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

// New rows of simple jobs, column by column.
struct PostgresStore::Columns {
  Ints state, priority, run_at, queue, kind, max_attempts, timeout;
  Texts args, headers, tags, correlation, reply;
  bool into_sessions = false;  // some belong to sessions: see fast_path_sessions.cc; then also
  Ints flags;
  Texts session;
  std::deque<std::string> joined;                      // tags
  bool some_wait = false;                              // are scheduled for later
  std::map<std::int64_t, JobCountsChange> job_counts;  // by queue
};

// Completions of many requests in one statement.
struct PostgresStore::Completing {
  Ints ids, tokens;
  Texts results;
  // Completions of jobs in sessions. `keep`: a new job of the batch enters the session.
  struct Heads {
    Ints ids, tokens, queues, keep;
    Texts keys, results;
  };
  Heads heads;
  std::unordered_set<JobId> seen;  // all ids
  std::span<const Operation> operations;
  std::span<OperationResult> answers;             // of these completions
  bool first_answered = false, answered = false;  // the first statement is answered; all are
  std::unordered_set<JobId> done;
};

struct PostgresStore::Claiming {
  const Claim* op = nullptr;
  OperationResult* answer = nullptr;
  std::vector<const QueueInfo*> queues;
  std::int64_t until = 0;  // when the leases end, on the lease clock,
  std::int64_t at = 0;     // and when they start
  bool sent_once = false, answered = false;
  ClaimResult result;
  Ints extras;  // jobs that may have a checkpoint
  Rooms rooms;  // capacity of queues with limits
  // The next job does not fit into the rest of op->max, or the jobs have kPageBytes.
  bool full = false;
  std::size_t bytes = 0;
  // For its queues with limits per key: the jobs that it may take, with their queues; and the
  // queues that may have more jobs.
  std::set<int> keyed_queues, unfinished;
  std::vector<KeyedJob> keyed;
  std::vector<int> keyed_of;
  // For a claim whose queues have an order of their own: the index of each job in `keyed`.
  std::unordered_map<JobId, std::size_t> place_of;
  std::map<int, FairKeys> fair_keys;  // of its queues with fair keys
  bool from_beginning = false;
  std::array<std::int64_t, kLowestPriority + 1> from{};  // for one queue: where it started to read
  bool short_of = false;
  // About the last try: it met packs; it could not take some of their ids; and the number of packs
  // unpacked before the read.
  bool met_packs = false, left_some = false;
  std::int64_t undone = 0;
  bool undoes = false;  // unpacks entries instead of taking packs
  Instant sent;
};

struct PostgresStore::Open {
  std::vector<std::shared_ptr<Completing>> completions;
  std::vector<std::shared_ptr<Claiming>> claims;
  struct Entering {
    std::span<const Operation> operations;
    std::span<OperationResult> answers;  // {} = the answers arrived, or there are none
  };
  Entering entering;
};

}  // namespace mainspring::pg
