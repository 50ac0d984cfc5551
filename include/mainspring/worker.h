// Options of a worker and of each kind of job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/context.h"
#include "mainspring/job.h"

namespace mainspring {

// When to retry a failed attempt. By default the server decides: min(n^4 + 2 s, 6 h).
struct RetryPolicy {
  // Before the second attempt; nullopt = the server's back-off.
  std::optional<Duration> first_delay;
  // Each further delay is longer by this factor, ± 20 %, up to max_delay.
  double factor = 2;
  Duration max_delay = std::chrono::hours(6);
  // Dead after this many failed attempts, if that is less than the job's own max_attempts; 0 = the
  // job's own.
  int max_attempts = 0;

  // The delay after attempt `attempt` of job `id`; the jitter is a fixed function of both.
  std::optional<Duration> delay(JobId id, int attempt) const;
};

struct KindOptions {
  // Concurrent jobs of this kind in this worker; 0 = the number of slots.
  int concurrency = 0;
  // Time limit of an attempt; 0 = the job's own. The shorter of the two counts.
  Duration timeout{0};
  RetryPolicy retry;
  // Name of a lease that a handler holds while it runs: "report/{customer}", where {field} is the
  // string or number in that field of args. At most one job with the same name runs at once in the
  // system, whatever its kind. "" = no lease. A job that does not get the lease waits in its slot
  // for up to kSingletonWait (at most one job per name, and a quarter of the slots). Then the
  // worker returns it without counting the attempt: for 1 s, longer if many jobs want the lease, up
  // to kLongestSingletonPause. Args without the field make the job dead.
  std::string singleton;
  // The handler runs until it is asked to stop. When the worker stops, it asks at once, not after
  // four fifths of graceful_stop.
  bool until_stopped = false;
};
inline constexpr Duration kSingletonWait = std::chrono::seconds(1);
inline constexpr Duration kLongestSingletonPause = std::chrono::seconds(30);

// The return value of a handler. An error or an exception is a failed attempt.
using HandlerResult = Result<Outcome>;
using Handler = std::function<HandlerResult(const ClaimedJob&, Context&)>;

struct WorkerOptions {
  // 1 to kMaxClaimQueues queues, or patterns as "tenant/*". An Engine adds those of its handlers.
  std::vector<std::string> queues;
  // Concurrent handlers, one thread each: 1 to 1024. Raise for handlers that wait (network,
  // programs); for handlers that compute use at most the number of cores. A job with a cost
  // (limits.h) takes that many slots, at most all. It waits until they are free, and so do the
  // jobs that were claimed after it.
  int slots = 10;
  // If the server hears nothing from this worker for this long, it gives the jobs to others. The
  // worker renews every third of it. Raise for machines that stall; lower to be replaced sooner.
  Duration lease = kDefaultLease;
  // The longest time that stop() takes if handlers obey: they may run for four fifths of it, then
  // they are asked to stop and their jobs are returned without counting the attempt.
  Duration graceful_stop = std::chrono::seconds(25);
  // How long one claim waits at the server for jobs.
  Duration claim_wait = std::chrono::seconds(20);
  // The version of your program, up to 100 bytes. `mainspring workers` shows it. Default: unknown.
  std::string version;
  // The language of the handlers, up to 100 bytes. `mainspring workers` shows it.
  std::string language = "C++";

  // Called once, from a thread of the worker, when an operator stops it (`mainspring workers
  // stop`): end the program. The worker claims no more jobs by then; call stop(), not from this
  // function.
  std::function<void()> on_stop_command;
  // A worker that lives and dies with another program than its own, as those of job folders do,
  // only becomes quiet when an operator stops it.
  bool stops_on_command = true;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

// Counters since start, for people and tests.
struct WorkerStats {
  std::int64_t claimed = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;   // retry
  std::int64_t dead = 0;     // by the handler or the retry policy
  std::int64_t snoozed = 0;  // also jobs returned at shutdown
  std::int64_t deferred = 0;
  std::int64_t cancelled = 0;
  std::int64_t stale = 0;       // outcomes refused: another worker had the job by then
  std::int64_t refused = 0;     // outcomes that the server refused for another reason
  std::int64_t lease_lost = 0;  // handlers that were asked to stop for a lost lease
  std::int64_t claims = 0;      // calls
  std::int64_t finishes = 0;    // calls
  std::int64_t renews = 0;      // calls
  int running = 0;              // handlers now
  int waiting = 0;              // claimed and not started
};

}  // namespace mainspring
