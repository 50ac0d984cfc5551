// Scheduler: moves due jobs, rescues expired leases, expires and prunes; each as bounded operations
// through the broker.
//
// It sleeps until the next instant at which the store's agenda has something, not for a period: an
// idle system has no ticks. step() submits what is due and says when to call next; the broker's
// agenda listener says when that is out of date.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "broker/broker.h"

namespace mainspring {

struct SchedulerOptions {
  int batch = 1000;  // jobs per operation: bounds how long one commit takes
  Duration max_sleep =
      std::chrono::seconds(60);  // look again at the latest, in case the wall clock was set
  Duration prune_interval =
      std::chrono::seconds(10);  // prune at most so often unless there is a backlog
};

class Scheduler {
 public:
  // `broker` and `clock` outlive it.
  Scheduler(Broker& broker, const Clock& clock, Registry& registry, SchedulerOptions options = {});
  ~Scheduler();

  // Submits the operations that are due, unless the last ones are still under way. Returns when to
  // call again.
  Instant step(Now now);

  // The thread that steps. May be called twice, in any order; stop waits.
  void start();
  void stop();

 private:
  // One kind of duty: at most one operation of it is under way.
  struct Duty {
    bool under_way = false;
    bool more = false;
    Instant not_before;
  };
  void submit(Duty Scheduler::*which, Counter& total, Operation operation) MS_EXCLUDES(mutex_);
  // Marks the duty as under way and returns true if it is due `until` from now; else notes when it
  // will be.
  bool is_due(Duty& duty, Duration until, Now now, Instant& next) MS_REQUIRES(mutex_);
  void run(std::stop_token stop);

  Broker& broker_;
  const Clock& clock_;
  Broker::ListenerId listener_ = 0;
  const SchedulerOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool dirty_ MS_GUARDED_BY(mutex_) = true;
  Duty move_ MS_GUARDED_BY(mutex_);
  Duty rescue_ MS_GUARDED_BY(mutex_);
  Duty expire_ MS_GUARDED_BY(mutex_);
  Duty prune_ MS_GUARDED_BY(mutex_);
  std::jthread runner_;
  Counter& moved_total_;
  Counter& rescued_total_;
  Counter& expired_total_;
  Counter& pruned_total_;
};

}  // namespace mainspring
