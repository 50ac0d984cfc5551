// How the commands that run workers (`work`, `pipeline run`) come to their end: a signal, a reason
// that they look for, or a server that refuses them.
#pragma once

#include <functional>
#include <optional>

#include "base/mutex.h"
#include "env/signals.h"
#include "mainspring/result.h"
#include "worker/worker.h"

namespace mainspring::cli {

// Why a worker was refused, if one was: all end then, instead of asking for ever. Outlives the
// workers that it watches.
class Refusal {
 public:
  explicit Refusal(StopSignals& signals) : signals_(signals) {}
  // Before the worker starts.
  void watch(WorkerRuntime& worker);
  // Before it starts: it claims this job, once. If it is not given that, it is refused.
  void name_job(WorkerRuntime& worker, Jobs& jobs, JobId job);
  // Before it starts: it claims one job, whichever comes first, and no other.
  static void take_one(WorkerRuntime& worker, Jobs& jobs);
  // The first reason as an error, or kExitOk. After the workers have stopped.
  Result<int> exit_code();

 private:
  void note(const Error& error);

  StopSignals& signals_;
  Mutex mutex_;
  std::optional<Error> error_ MS_GUARDED_BY(mutex_);
};

// Asks `done` four times a second, until it says yes or the first signal comes.
void wait_until(StopSignals& signals, const std::function<bool()>& done);

}  // namespace mainspring::cli
