// JobRunner: the common part of the runners of all folder types. It is given the current state of
// its folder (or that the folder is gone), and applies one change after another on its own thread.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "host/control.h"
#include "host/script_run.h"

namespace mainspring {

// Returns when stop is requested, or `limit` has passed.
void wait_for_stop(std::stop_token stop, Duration limit);

class JobRunner {
 public:
  explicit JobRunner(HostParts& host) : host_(host) {}
  virtual ~JobRunner() = default;  // the derived class has called end()
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  enum class Why { changed, disabled, removed, shutdown };
  // Runs this folder from now on; nullopt: runs nothing, for that reason. Does not wait.
  void set(std::optional<JobFolder> folder, Why why);
  // Calls set(nullopt) and waits until nothing runs. May be called twice.
  void end(Why why);

  // True if nothing is wanted and nothing runs: end() would not wait.
  bool resting() const;
  // Called on the runner's thread when it has come to rest. Set before set().
  std::function<void()> on_rest;

  virtual JobView view() const = 0;

 protected:
  // Runs the folder until `stop` is requested, then ends it; on the runner's thread.
  virtual void serve(const JobFolder& folder, std::stop_token stop) = 0;
  // Nothing is wanted (any more). On the runner's thread.
  virtual void rest() {}
  // The log of the folder; tries again, with growing pauses, while it cannot be opened, as on a
  // full disk. nullptr: `stop` was requested first.
  std::shared_ptr<JobLog> open_log(const JobFolder& folder, const std::stop_token& stop);
  // Why serve() should end, after `stop` was requested.
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
