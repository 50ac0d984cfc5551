// Queues of an engine: their counters, their limits, and their pauses.
//
//   auto mails = engine.queues();
//   mails.set_limits("mails", {.concurrency = 5, .rate = RateLimit{100, 1min}});
//   mails.pause("mails");
//
// What a queue's limits can say: limits.h. Guides: docs/guides/limits.md, docs/guides/order.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/backlog.h"
#include "mainspring/job.h"
#include "mainspring/limits.h"

namespace mainspring {

class Jobs;

// Each may be left out.
struct PauseOptions {
  std::string reason;             // up to 1 KiB
  std::optional<WallTime> until;  // at most 366 days from now
};

// A queue as it is now.
struct QueueStatus {
  std::string name;
  bool paused = false;
  std::optional<QueuePause> pause;  // while it is paused
  QueueLimits limits;
  std::optional<WallTime> opens_at;  // closed by its rate until then
  std::int64_t slots_taken = 0;      // of its concurrency, by what runs
  // Jobs kept now; cancelled ones without those that expired.
  std::int64_t count(JobState state) const { return counts[static_cast<std::size_t>(state)]; }
  std::array<std::int64_t, kJobStateCount> counts{};
  std::int64_t quarantined = 0;  // now, with the one that is released
  std::int64_t enqueued = 0;     // ever
  std::int64_t pruned = 0;       // ever
  std::int64_t expired = 0;      // kept now
  QueueBacklog backlog;
  // How long ended jobs stay readable; nullopt = as the store has it.
  std::optional<Duration> retention_completed, retention_dead;
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (a name, a limit: with the field), unavailable.
class EngineQueues {
 public:
  explicit EngineQueues(Jobs& jobs) : jobs_(&jobs) {}

  Result<std::vector<QueueStatus>> list();  // all, by name
  // Errors: not_found (nobody has used it yet).
  Result<QueueStatus> get(const std::string& queue);
  // In place of those it had: to change one, begin with get(queue)->limits. They hold at once, over
  // all workers and nodes; what runs goes on. Errors: invalid_argument also for a breaker that is
  // not there.
  Result<void> set_limits(const std::string& queue, QueueLimits limits);
  // Removes an empty queue with its settings. Errors: not_found, conflict (it has jobs, finished
  // ones included).
  Result<void> remove(const std::string& queue);
  // Its jobs are not claimed until it is resumed. Running jobs continue. A pause of a paused queue
  // replaces its reason and its end. Errors of both: not_found (no such queue; enqueue() and
  // set_limits() create one).
  Result<void> pause(const std::string& queue, PauseOptions options = {});
  Result<void> resume(const std::string& queue);

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
