// How handlers are run: options of a worker and of each kind of job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/context.h"
#include "mainspring/job.h"

namespace mainspring {

// When a failed attempt is tried again. The default leaves it to the server: min(n^4 + 2 s, 6 h).
struct RetryPolicy {
  // Before the second attempt; nullopt = the server's back-off.
  std::optional<Duration> first_delay;
  // Each further delay is so many times longer, ± 20 %, up to max_delay.
  double factor = 2;
  Duration max_delay = std::chrono::hours(6);
  // Dead after so many failed attempts, if that is less than the job's own max_attempts; 0 = the
  // job's own.
  int max_attempts = 0;

  // The delay after attempt `attempt` of job `id`; the jitter is a fixed function of both.
  std::optional<Duration> delay(JobId id, int attempt) const;
};

struct KindOptions {
  // Jobs of this kind at once in this worker; 0 = as many as there are slots.
  int concurrency = 0;
  // Time limit of an attempt; 0 = the job's own. The shorter of the two counts.
  Duration timeout{0};
  RetryPolicy retry;
  // The name of a lease that a handler holds while it runs: "report/{customer}", where {field} is
  // the string or number at that field of args. At most one job with the same name runs at once in
  // the system, whatever its kind. Who does not get it gives the job back without counting the
  // attempt: for 1 s, longer where many want it, up to kLongestSingletonPause. "" = no lease. Args
  // without the field make the job dead. A job waits in its slot for up to kSingletonWait; no more
  // than one per name and a quarter of the slots at once.
  std::string singleton;
  // The handler goes on until it is told to end: when the worker stops it is told at once, not
  // after four fifths of graceful_stop.
  bool until_told = false;
};
inline constexpr Duration kSingletonWait = std::chrono::seconds(1);
inline constexpr Duration kLongestSingletonPause = std::chrono::seconds(30);

// What a handler answers. An error is a failed attempt, as is an exception.
using HandlerResult = Result<Outcome>;
using Handler = std::function<HandlerResult(const ClaimedJob&, Context&)>;

struct WorkerOptions {
  // Where jobs are taken from, 1 to kMaxClaimQueues. An Engine adds those of its handlers.
  std::vector<std::string> queues;
  // Handlers that run at once, each on a thread: 1 to 1024. Raise for handlers that wait (network,
  // programs), not beyond the cores for those that compute. A job of a kind with a cost (limits.h)
  // takes so many, at most all; where fewer are free it waits for them, and those behind it too.
  int slots = 10;
  // How long the server waits for news of this worker before it gives its jobs to others; renewed
  // every third of it. Raise for machines that stall; lower to be replaced sooner.
  Duration lease = kDefaultLease;
  // How long stop() takes at most with handlers that obey: they may go on for four fifths of it,
  // then they are told to stop and their jobs are given back without counting the attempt.
  Duration graceful_stop = std::chrono::seconds(25);
  // How long a claim waits at the server before it is asked again.
  Duration claim_wait = std::chrono::seconds(20);
  // The version of your program, up to 100 bytes. `mainspring workers` shows it. Default: unknown.
  std::string version;
  // What the handlers are written in, up to 100 bytes. `mainspring workers` shows it.
  std::string language = "C++";

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

// Counters since start, for people and tests.
struct WorkerStats {
  std::int64_t claimed = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;   // retry
  std::int64_t dead = 0;     // the handler said so, or its policy did
  std::int64_t snoozed = 0;  // also given back at shutdown
  std::int64_t deferred = 0;
  std::int64_t cancelled = 0;
  std::int64_t stale = 0;       // outcomes refused: somebody else had the job by then
  std::int64_t refused = 0;     // outcomes that the server did not take for another reason
  std::int64_t lease_lost = 0;  // handlers that were told so
  std::int64_t claims = 0;      // calls
  std::int64_t finishes = 0;    // calls
  std::int64_t renews = 0;      // calls
  int running = 0;              // handlers now
  int waiting = 0;              // claimed and not started
};

}  // namespace mainspring
