// Finds the gate that holds a job back, from the state of the store and the broker.
#pragma once

#include <optional>
#include <vector>

#include "broker/pace.h"
#include "mainspring/why.h"
#include "store/store.h"

namespace mainspring {

// All arguments are the state at `now`. `queue` = nullptr: unknown. The kinds that workers take are
// not known: a worker that takes the queue may not take the job's kind. `session` = nullptr: the
// job has none, or it is unknown. `key`: the queue's state of the job's limit_key. `breaker`: that
// the queue names; nullptr = none.
Why why_of(const Job& job, const QueueStats* queue, const std::vector<WorkerInfo>& workers,
           const SessionInfo* session, WallTime now, const LimitKeyInfo& key = {},
           const BreakerInfo* breaker = nullptr);

// For a queue with costs: the limit whose remainder is too small for the job; first of the queue,
// then of its key; nullopt = the job would fit.
std::optional<Why> held_by_cost(const Job& job, const QueueStats& queue, const LimitKeyInfo& key,
                                WallTime now);
// For such a queue and a job that would fit but has others before it: the limit that a heavy one of
// them may wait for. nullopt = every job fits.
std::optional<Why> waits_for_heavy(const QueueStats& queue, WallTime now);

// Which earlier jobs must start first: those of its queue, or of its limit_key only.
enum class Line { none, queue, limit_key };
Line line_of(Gate gate);
// Adds the number of earlier jobs to `why`, for a job in quarantine.
void add_before_in_quarantine(Why& why, std::int64_t ahead);
// Adds the number of earlier jobs in the ready queue to `why`, and an estimate of the start time.
// Jobs are counted, whatever they cost. The estimate uses the rate limit if one holds the job back;
// with a breaker it is not before the breaker is half open; else it uses the observed completion
// rate, or the key's share of the running jobs.
void add_estimate(Why& why, const QueueStats& queue, std::int64_t ahead,
                  const std::optional<Pace::Seen>& pace, WallTime now,
                  const LimitKeyInfo& key = {});

}  // namespace mainspring
