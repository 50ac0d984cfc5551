// Queues of an engine: their counters, limits and pauses.
//
//   auto mails = engine.queues();
//   mails.set_limits("mails", {.concurrency = 5, .rate = RateLimit{100, 1min}});
//   mails.pause("mails");
//
// The limits of a queue: limits.h. Guides: docs/guides/limits.md, docs/guides/order.md.
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

// Each field is optional.
struct PauseOptions {
  std::string reason;             // up to 1 KiB
  std::optional<WallTime> until;  // at most 366 days from now
};

// The current status of a queue.
struct QueueStatus {
  std::string name;
  bool paused = false;
  std::optional<QueuePause> pause;  // while it is paused
  QueueLimits limits;
  std::optional<WallTime> opens_at;  // its rate limit holds jobs back until then
  std::int64_t slots_taken = 0;      // of its concurrency, by running jobs
  // Jobs kept now; cancelled ones without expired ones.
  std::int64_t count(JobState state) const { return counts[static_cast<std::size_t>(state)]; }
  std::array<std::int64_t, kJobStateCount> counts{};
  std::int64_t quarantined = 0;  // now, including the released one
  std::int64_t enqueued = 0;     // since the queue was created
  std::int64_t pruned = 0;       // since the queue was created
  std::int64_t expired = 0;      // kept now
  QueueBacklog backlog;
  // How long finished jobs stay readable; nullopt = the store's setting.
  std::optional<Duration> retention_completed, retention_dead;
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument (a
// name, a limit: with the field), unavailable.
class EngineQueues {
 public:
  explicit EngineQueues(Jobs& jobs) : jobs_(&jobs) {}

  Result<std::vector<QueueStatus>> list();  // all, by name
  // Errors: not_found (it has never been used).
  Result<QueueStatus> get(const std::string& queue);
  // Replaces all limits: to change one, start from get(queue)->limits. They apply at once, over all
  // workers and nodes; running jobs continue. Errors also: invalid_argument for an unknown breaker.
  Result<void> set_limits(const std::string& queue, QueueLimits limits);
  // Removes an empty queue with its settings. Errors: not_found, conflict (it has jobs, finished
  // ones included).
  Result<void> remove(const std::string& queue);
  // Stops claims of its jobs until it is resumed. Running jobs continue. Pausing a paused queue
  // replaces its reason and its end. Errors of both: not_found (no such queue; enqueue() and
  // set_limits() create one).
  Result<void> pause(const std::string& queue, PauseOptions options = {});
  Result<void> resume(const std::string& queue);

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
