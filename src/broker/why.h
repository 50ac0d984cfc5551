// Which gate holds a job back, from what the store and the broker say of it.
#pragma once

#include <optional>
#include <vector>

#include "broker/pace.h"
#include "mainspring/why.h"
#include "store/store.h"

namespace mainspring {

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
