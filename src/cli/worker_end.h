// How the commands that run workers (`work`, `pipeline run`) end: a signal, their own end
// condition, or a refusal of the server.
#pragma once

#include <functional>
#include <optional>

#include "base/mutex.h"
#include "env/signals.h"
#include "mainspring/result.h"
#include "worker/worker.h"

namespace mainspring::cli {

// Why the server refused a worker, if it did: then all workers end instead of retrying forever.
// Outlives the workers that it watches.
class Refusal {
 public:
  explicit Refusal(StopSignals& signals) : signals_(signals) {}
  // Call before the worker starts.
  void watch(WorkerRuntime& worker);
  // Call before it starts: it claims this job once. If it does not get the job, that is a refusal.
  void name_job(WorkerRuntime& worker, Jobs& jobs, JobId job);
  // Call before it starts: it claims one job, and no other.
  static void take_one(WorkerRuntime& worker, Jobs& jobs);
  // Before the worker is made: an operator who stops it ends this command.
  void obey(WorkerOptions& options);
  // Did an operator? Then a line for people says so.
  bool stopped_by_operator();
  // The first reason as an error, or kExitOk. After the workers have stopped.
  Result<int> exit_code();

 private:
  void note(const Error& error);

  StopSignals& signals_;
  Mutex mutex_;
  std::optional<Error> error_ MS_GUARDED_BY(mutex_);
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
};

// Calls `done` four times a second, until it returns true or the first signal arrives.
void wait_until(StopSignals& signals, const std::function<bool()>& done);

}  // namespace mainspring::cli
