// The fast path: batches of only simple operations, which are enqueues without keys, claims, and
// completions of jobs that this node gave out. Each kind is one statement that also writes
// everything that follows from it. So no statement depends on an earlier answer: the whole batch,
// including its commit, is one round trip.
//
// A transaction after the commit does what the answers leave open: claims that found too little and
// did not read the ready queue from its beginning, checkpoints of retried jobs, completions that
// were not found and need an answer. If the connection was lost with the answers and the batch was
// committed, it also recovers the answers.
#include "store_postgres/fast_path.h"

#include <algorithm>

#include "base/mutant.h"

namespace mainspring::pg {

bool PostgresStore::knows_all_of(const Enqueue& op) const {
  return std::all_of(op.jobs.begin(), op.jobs.end(), [&](const NewJob& job) {
    return queues_by_name_.contains(job.queue) && kinds_by_name_.contains(job.kind);
  });
}

bool PostgresStore::knows_queues(const Claim& op) const {
  return std::all_of(op.queues.begin(), op.queues.end(),
                     [&](const auto& name) { return queues_by_name_.contains(name); }) &&
         std::all_of(op.kinds.begin(), op.kinds.end(),
                     [&](const auto& name) { return kinds_by_name_.contains(name); });
}

// True if no other statement is needed, and the lock order is deadlock-free: all completions at
// once, and first (see locks.cc). Claims must be last, because only later enqueues of the batch
// would show that a queue found empty is not empty.
bool PostgresStore::takes_fast_path(std::span<const Operation> batch) {
  Completing completing;
  std::int64_t jobs = 0;
  bool in_run = true, claimed = false;
  for (const Operation& operation : batch) {
    if (const auto* enqueue = std::get_if<Enqueue>(&operation)) {
      if (claimed || !is_simple_but_for_sessions(*enqueue) || !knows_all_of(*enqueue)) return false;
      jobs += static_cast<std::int64_t>(enqueue->jobs.size());
    } else if (const auto* claim = std::get_if<Claim>(&operation)) {
      if (claim->job != 0 || !knows_queues(*claim)) return false;
      for (const std::string& name : claim->queues) {
        if (queues_by_name_.at(name)->limits.any()) return false;
      }
      claimed = true;
    } else if (const auto* finish = std::get_if<Finish>(&operation)) {
      if (!in_run || !completes_simply(*finish, completing, true)) return false;
      for (const JobOutcome& result : finish->results) completing.seen.insert(result.id);
    } else {
      return false;
    }
    in_run = in_run && std::holds_alternative<Finish>(operation);
  }
  return live_jobs_ + jobs <= options_.store.max_live_jobs;
}

void PostgresStore::close(BatchReport& report) {
  fast_path_ = false;
  const std::shared_ptr<Open> open = std::move(open_);
  Open rest;
  for (auto& completing : open->completions) {
    if (completing->answered && completing->done.size() == completing->seen.size()) {
      answer_completions(*completing);
    } else {
      rest.completions.push_back(std::move(completing));
    }
  }
  for (auto& claiming : open->claims) {
    const bool lost = claiming->sent_once && !claiming->answered;
    if (lost || wants_more(*claiming) || !claiming->extras.empty()) {
      rest.claims.push_back(std::move(claiming));
    } else {
      *claiming->answer = std::move(claiming->result);
    }
  }
  rest.entering = open->entering;
  if (!rest.completions.empty() || !rest.entering.answers.empty()) close_ends(rest, report);
  if (!rest.claims.empty()) close_claims(rest, report);
}

// Runs as a batch of its own, with its locks: for what the statements did not do, or may have done.
void PostgresStore::close_ends(Open& rest, BatchReport& report) {
  constexpr int kMostTries = 5;
  std::vector<Operation> left;
  for (const auto& completing : rest.completions) {
    for (const Operation& operation : completing->operations) {
      Finish finish = std::get<Finish>(operation);
      std::erase_if(finish.results,
                    [&](const JobOutcome& r) { return completing->done.contains(r.id); });
      if (!finish.results.empty()) left.emplace_back(std::move(finish));
    }
  }
  for (int tries = 1;; ++tries) {
    clear_batch();
    ++batch_;
    try {
      if (!connection_) throw PgError{"", "the connection is closed", true};
      if (options_.joins && !MS_MUTANT(left_ends_lock_jobs_first)) look_ahead(left);
      for (const auto& completing : rest.completions) {
        note_lost_heads(*completing);
        answer_completions(*completing);
      }
      look_at_entered(rest.entering.operations, rest.entering.answers);
      commit(report);
      remember(report);
      break;
    } catch (const PgError& error) {
      const bool again = !error.lost && error.passing() && tries < kMostTries;
      if (again) {
        roll_back();
        continue;
      }
      leave_open(error);
      for (const auto& completing : rest.completions) answer_what_is_known(*completing);
      break;
    }
  }
  make_first_.clear();
}

void PostgresStore::answer_what_is_known(Completing& run) {
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    const auto& results = std::get<Finish>(run.operations[i]).results;
    const bool done = std::all_of(results.begin(), results.end(),
                                  [&](const JobOutcome& r) { return run.done.contains(r.id); });
    run.answers[i] = done ? OperationResult(FinishResult{
                                std::vector<FinishStatus>(results.size(), FinishStatus::ok)})
                          : OperationResult(not_known());
  }
}

void PostgresStore::leave_open(const PgError& error) {
  log_.warn("what a batch left open stays open", {{"message", error.message}});
  if (error.lost) connection_.reset();
  commit_sent_ = false;
  roll_back();
  copies_stale_ = true;
}

Error PostgresStore::not_known() {
  return {.code = ErrorCode::timeout,
          .message =
              "the connection to the store was lost before the outcome could be looked up: the "
              "outcome is unknown",
          .retry_after_ms = 1000};
}

// An error here must not undo what is committed: operations without an answer are answered with an
// unknown outcome.
void PostgresStore::close_claims(Open& rest, BatchReport& report) {
  std::vector<std::size_t> kept;  // of the claims: confirmed jobs
  for (const auto& claiming : rest.claims) kept.push_back(claiming->result.jobs.size());
  clear_batch();
  ++batch_;
  try {
    if (!connection_) throw PgError{"", "the connection is closed", true};
    std::unordered_set<JobId> given;
    for (std::size_t i = 0; i < rest.claims.size(); ++i) {
      Claiming& claiming = *rest.claims[i];
      if (claiming.sent_once && !claiming.answered) {
        find_claimed(claiming, given);
        kept[i] = claiming.result.jobs.size();
      }
      look_again(rest.claims[i]);
      read_checkpoints(claiming);
    }
    commit(report);
    for (const auto& claiming : rest.claims) *claiming->answer = take_result(*claiming);
    remember(report);
  } catch (const PgError& error) {
    leave_open(error);
    for (std::size_t i = 0; i < rest.claims.size(); ++i) {
      Claiming& claiming = *rest.claims[i];
      claiming.result.jobs.resize(kept[i]);
      // A job is not returned without its checkpoint: its lease expires instead.
      const bool whole = claiming.answered && claiming.extras.empty();
      *claiming.answer = whole ? OperationResult(std::move(claiming.result)) : not_known();
    }
  }
}

}  // namespace mainspring::pg
