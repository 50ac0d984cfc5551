// Continuous timers: work that runs almost without a pause, in consecutive runs.
//
//   engine.on_timer("outbox", [](TimerContext& ctx, int max) -> Result<int> {
//     return send_some(max, ctx.token());       // commits on its own; 0 = there was nothing to do
//   });
//
//   run 1   wait for the lease ▸ batch batch batch … batch │ release
//   run 2                       (woken `handoff` before) ──▶ waits ▸ batch batch …
//
// The runs are the jobs of a schedule that is `continuous` (mainspring/schedule.h) and whose job
// template has this kind. At most one run of a timer processes at a time in the whole system, under
// the lease "timer/<schedule>". Source: the continuous-process timer with a standby. Guide:
// docs/guides/timers.md.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "mainspring/context.h"
#include "mainspring/job.h"

namespace mainspring {

class TimerContext {
 public:
  virtual ~TimerContext() = default;
  virtual const std::string& name() const = 0;  // of the schedule
  // Grows with every run: a store that keeps the largest token can refuse writes of older runs.
  virtual Token token() const = 0;
  virtual int batch() const = 0;  // of this run, from 1
  // Time until the run should end: a batch that still runs then uses up the margin. Negative after
  // that time.
  virtual Duration remaining() const = 0;
  // Stop is requested when the lease is lost, the job is cancelled or out of time, or the worker
  // stops.
  virtual std::stop_token stop_token() const = 0;
  virtual const ClaimedJob& job() const = 0;
};

// Processes up to `max` items and commits them in each call. Returns how many; 0 = no work. An
// error or an exception ends the run and starts the next one.
using ProcessBatch = std::function<Result<int>(TimerContext& context, int max)>;

struct TimerOptions {
  std::string queue;  // "" = "default"
  // `max` of each batch, 1 to 1,000,000. Raise if commits are slow, lower if batches take long.
  int batch = 100;
  // Pause after an empty batch. Lower to see work sooner; each check costs a read.
  Duration idle = std::chrono::seconds(1);
  // How long a killed run delays the next one.
  Duration lease = std::chrono::seconds(15);
  // Pause after a run that ended with an error, doubled for each further one up to
  // kLongestTimerPause.
  Duration error_pause = std::chrono::seconds(1);
  // Timers of different kinds that run at once in this process; the least of all on_timer()
  // applies.
  int timer_slots = 3;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};
// Use it as max_attempts of a timer's job. A killed run is retried this many times with growing
// delays; then its job is dead, and the fallback starts another. A job that waits for its retry
// counts as live, so neither the fallback nor a wake starts a second one.
inline constexpr int kTimerAttempts = 3;
inline constexpr int kMaxTimerSlots = 1000;
inline constexpr Duration kLongestTimerPause = std::chrono::seconds(20);

}  // namespace mainspring
