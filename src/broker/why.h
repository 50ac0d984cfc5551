// Why: which gate holds a job back now, for whoever asks why it does not run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/pace.h"
#include "store/store.h"

namespace mainspring {

enum class Gate {
  ended,            // it is completed, cancelled or dead
  running,          // nothing holds it
  time,             // its run_at, or the pause after a failure, has not come
  earlier_run,      // of the same schedule, which has not ended
  quarantine,       // its workers were lost with it: it waits for its turn to run alone
  deferred,         // its worker put it aside: a claim that names it, or an operator, goes on
  session_turn,     // another job of its session has the turn
  session_stopped,  // a job of its session died, which blocks or parks it
  session_held,     // a worker holds its session, and only it gets the job
  queue_paused,     // somebody paused it
  concurrency,      // as many jobs of its queue run as may run at once
  key_concurrency,  // as many jobs of its queue with its limit_key run as may run at once
  key_rate,         // as many with its limit_key have begun as may begin in the time
  breaker,          // what its queue depends on is thought to be unwell
  rate,             // as many of its queue have begun as may begin in the time
  no_worker,        // nobody who was heard of lately takes its queue
  busy_workers,     // all who take its queue have as much as they want
  claim,            // it is about to be claimed
};
std::string_view to_string(Gate gate);

struct Why {
  Gate gate = Gate::claim;
  std::string text;               // a sentence for people
  std::optional<WallTime> until;  // when the gate opens by itself, if that is known
  // Of a job that waits for its turn in the line: how many are before it, at most kMaxAhead, and
  // about when it begins, if its queue's jobs were seen to end.
  std::optional<std::int64_t> ahead{};
  std::optional<WallTime> estimated_start{};
};
inline constexpr std::int64_t kMaxAhead = 10'000;

// From what the store and the broker say at `now`. `queue` = nullptr: unknown. `kinds` of workers
// are not known: one that takes the queue may still not take the job's kind.
// `session` = nullptr: it has none, or nobody knows it any more. `key`: what its queue knows of its
// limit_key. `breaker`: that its queue names; nullptr = none.
Why why_of(const Job& job, const QueueStats* queue, const std::vector<WorkerInfo>& workers,
           const SessionInfo* session, WallTime now, const LimitKeyInfo& key = {},
           const BreakerInfo* breaker = nullptr);

// Of a queue with costs: the limit into whose rest the job does not fit, first of the queue, then
// of its key; nullopt = it would fit.
std::optional<Why> held_by_cost(const Job& job, const QueueStats& queue, const LimitKeyInfo& key,
                                WallTime now);
// Of such a queue, as `gate`, for a job that would fit but has others before it: the limit that a
// heavy one of these may wait for. nullopt = any fits.
std::optional<Why> behind_heavy(const QueueStats& queue, WallTime now);

// What passes when those before it begin: those of its queue, or of its limit_key alone.
enum class Line { none, queue, limit_key };
Line line_of(Gate gate);
// To `why`, of a job in quarantine: those before it.
void add_before_in_quarantine(Why& why, std::int64_t ahead);
// To `why`, of a job that waits in a line: those before it there, and what follows from them for
// when it begins, counted in jobs, whatever they cost. By the rate where one holds it; by a breaker
// not before it is half open; else by what was seen of the queue, and of that the share that the
// key has in what runs.
void add_estimate(Why& why, const QueueStats& queue, std::int64_t ahead,
                  const std::optional<Pace::Seen>& pace, WallTime now,
                  const LimitKeyInfo& key = {});

}  // namespace mainspring
