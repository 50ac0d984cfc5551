// What batches of plain operations are made of: see plain.cc.
#pragma once

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

// New rows of plain jobs, column by column.
struct PostgresStore::Columns {
  Ints state, priority, run_at, queue, kind, max_attempts, timeout;
  Texts args, headers, tags, correlation, reply;
  bool into_sessions = false;  // some of them: see plain_sessions.cc; then also
  Ints flags;
  Texts session;
  std::deque<std::string> joined;             // tags
  bool some_wait = false;                     // for their time
  std::map<std::int64_t, TallyChange> tally;  // by queue
};

// Completions of many requests, in one statement.
struct PostgresStore::Completing {
  Ints ids, tokens;
  Texts results;
  // Those of sessions. `keep`: a new job of the batch goes into it.
  struct Turns {
    Ints ids, tokens, queues, keep;
    Texts keys, results;
  };
  Turns turns;
  std::unordered_set<JobId> seen;  // all of them
  std::span<const Operation> operations;
  std::span<OperationResult> answers;             // of those
  bool first_answered = false, answered = false;  // of its statements; all of them
  std::unordered_set<JobId> done;
};

struct PostgresStore::Claiming {
  const Claim* op = nullptr;
  OperationResult* answer = nullptr;
  std::vector<const QueueInfo*> queues;
  std::int64_t until = 0;  // when the leases end, on the lease clock,
  std::int64_t at = 0;     // and when they begin
  bool sent_once = false, answered = false;
  ClaimResult result;
  Ints extras;        // jobs that may have a checkpoint
  Rooms rooms;        // of queues with limits: what of them may begin
  // The next job does not fit into what is left of op->max, or the jobs have kPageBytes.
  bool full = false;
  std::size_t bytes = 0;
  // Of its queues with limits per key: the jobs that it may take, and of which queue each is; and
  // those queues of which there may be others.
  std::set<int> keyed_queues, unfinished;
  std::vector<KeyedJob> keyed;
  std::vector<int> keyed_of;
  // Of a claim whose queues have an order of their own: where in `keyed` each job stands.
  std::unordered_map<JobId, std::size_t> place_of;
  std::map<int, KeyTurns> turns;  // of its queues with fair keys
  bool from_beginning = false;
  std::array<std::int64_t, kLowestPriority + 1> from{};  // of one queue: where it began to look
  bool short_of = false;
  // Of its last try: entries for many jobs that it met, ids in them that it could not take, and how
  // many it undid before it looked.
  bool met_bundles = false, left_some = false;
  std::int64_t undone = 0;
  bool undoes = false;  // takes no bundles from here on
  Instant sent;
};

struct PostgresStore::Open {
  std::vector<std::shared_ptr<Completing>> completions;
  std::vector<std::shared_ptr<Claiming>> claims;
  struct Entering {
    std::span<const Operation> operations;
    std::span<OperationResult> answers;  // {} = they have come, or there are none
  };
  Entering entering;
};

}  // namespace mainspring::pg
