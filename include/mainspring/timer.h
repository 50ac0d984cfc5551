// Continuous timers: work that runs almost without a pause, in runs that end and begin again.
//
//   engine.on_timer("outbox", [](TimerContext& ctx, int max) -> Result<int> {
//     return send_some(max, ctx.token());       // commits on its own; 0 = there was nothing to do
//   });
//
//   run 1   wait for the lease ▸ batch batch batch … batch │ release
//   run 2                       (woken `handoff` before) ──▶ waits ▸ batch batch …
//
// The runs are the jobs of a schedule that is `continuous` (mainspring/schedule.h), whose template
// job is of this kind. At most one run of a timer processes at a time in the whole system, by the
// lease "timer/<schedule>". Source: the continuous-process timer and its twin; guide:
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
  // Grows with every run: a store that remembers the largest refuses a run that comes too late.
  virtual Token token() const = 0;
  virtual int batch() const = 0;  // of this run, from 1
  // Until the run is to end: a batch that is still at work then eats into the margin. Below 0 once
  // that time has passed.
  virtual Duration remaining() const = 0;
  // Requested when the lease is lost, the job is cancelled or out of time, or the worker ends.
  virtual std::stop_token stop_token() const = 0;
  virtual const ClaimedJob& job() const = 0;
};

// Handles up to `max` items and commits them, each call on its own. Answers how many; 0 = there was
// nothing to do. An error or an exception ends the run and starts the next one.
using ProcessBatch = std::function<Result<int>(TimerContext& context, int max)>;

struct TimerOptions {
  std::string queue;  // "" = "default"
  // `max` of each batch, 1 to 1,000,000. Raise if commits are slow, lower if batches take long.
  int batch = 100;
  // After a batch that found nothing. Lower to see work sooner; each look costs a read.
  Duration idle = std::chrono::seconds(1);
  // For how long a run that was killed holds up the next one.
  Duration lease = std::chrono::seconds(15);
  // After a run that ended by an error: before the next begins, doubled for each further one up to
  // kLongestTimerPause.
  Duration error_pause = std::chrono::seconds(1);
  // Timers of different kinds that run at once in this process; the least of all on_timer() counts.
  int timer_slots = 3;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};
// For the max_attempts of a timer's job: a run that was killed is tried again so often, each time
// later; then its job is dead, and the fallback starts another. While it waits to be tried again it
// counts as living, so that neither the fallback nor a wake starts one beside it.
inline constexpr int kTimerAttempts = 3;
inline constexpr int kMaxTimerSlots = 1000;
inline constexpr Duration kLongestTimerPause = std::chrono::seconds(20);

}  // namespace mainspring
