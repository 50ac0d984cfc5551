// JobRunner: what a folder's runner has in common, whatever its type: it is told what the folder is
// now (or that it is gone), and a thread of its own makes that so, one change after the other.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "host/control.h"
#include "host/script_run.h"

namespace mainspring {

// Returns when the stop is requested, or `limit` has passed.
void wait_for_stop(std::stop_token stop, Duration limit);

class JobRunner {
 public:
  explicit JobRunner(HostParts& host) : host_(host) {}
  virtual ~JobRunner() = default;  // the derived class has called end()
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  enum class Why { changed, disabled, removed, shutdown };
  // From now on this folder is to run; nullopt: nothing is, for that reason. Does not wait.
  void set(std::optional<JobFolder> folder, Why why);
  // set(nullopt) and waits until nothing runs any more. May be called twice.
  void end(Why why);

  // Nothing is wanted and nothing runs: end() would not wait.
  bool resting() const;
  // Called, on the runner's thread, when it has come to rest. Set before set().
  std::function<void()> on_rest;

  virtual JobView view() const = 0;

 protected:
  // Runs the folder until `stop` is requested, then ends it; on the runner's thread.
  virtual void serve(const JobFolder& folder, std::stop_token stop) = 0;
  // Nothing is wanted any more, or nothing ever was; on the runner's thread.
  virtual void rest() {}
  // Why serve() was to end, once `stop` was requested; what comes after it.
  Why why() const;

  HostParts& host_;

 private:
  void run();

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<JobFolder> wanted_ MS_GUARDED_BY(mutex_);
  Why why_ MS_GUARDED_BY(mutex_) = Why::changed;
  std::uint64_t generation_ MS_GUARDED_BY(mutex_) = 0;
  std::uint64_t served_ MS_GUARDED_BY(mutex_) = 0;  // the generation that is made so now
  bool end_ MS_GUARDED_BY(mutex_) = false;
  std::stop_source serving_ MS_GUARDED_BY(mutex_){std::nostopstate};
  std::thread thread_;
};

}  // namespace mainspring
