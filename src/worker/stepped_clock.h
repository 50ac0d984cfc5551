// SteppedClock: a clock for tests of threads. It stands still until the test advances it, so a
// thread that the machine delays misses no deadline.
#pragma once

#include <map>
#include <thread>

#include "base/mutex.h"
#include "env/clock.h"

namespace mainspring {

// From every thread. Code under test that waits for a deadline sleeps in real time, then reads the
// clock again: it notices an advance at the latest after that sleep.
class SteppedClock final : public Clock {
 public:
  Now now() const override {
    const MutexLock lock(mutex_);
    ++reads_[std::this_thread::get_id()];
    read_.notify_all();
    return now_;
  }
  void advance(Duration d) {
    const MutexLock lock(mutex_);
    now_.instant = now_.instant + d;
    now_.wall = now_.wall + d;
  }
  // How often this thread has read the clock.
  int reads(std::thread::id thread) const {
    const MutexLock lock(mutex_);
    return reads_[thread];
  }
  // Waits until the thread has read the clock `count` times in all.
  void await_reads(std::thread::id thread, int count) const {
    const MutexLock lock(mutex_);
    while (reads_[thread] < count) read_.wait(mutex_);
  }
  // Waits until some other thread has read the clock twice from now on, or for 10 s.
  void await_another_look() const {
    const std::thread::id self = std::this_thread::get_id();
    const MutexLock lock(mutex_);
    const Reads before = reads_;
    const SystemClock real;
    const Instant end = real.now().instant + std::chrono::seconds(10);
    for (Instant now; !looked(self, before) && (now = real.now().instant) < end;)
      read_.wait_for(mutex_, end - now);
  }

 private:
  using Reads = std::map<std::thread::id, int>;
  bool looked(std::thread::id self, const Reads& before) const MS_REQUIRES(mutex_) {
    for (const auto& [thread, count] : reads_) {
      const auto found = before.find(thread);
      if (thread != self && count >= (found == before.end() ? 0 : found->second) + 2) return true;
    }
    return false;
  }

  mutable Mutex mutex_;
  mutable CondVar read_;
  mutable Reads reads_ MS_GUARDED_BY(mutex_);
  Now now_ MS_GUARDED_BY(mutex_) = ManualClock().now();
};

}  // namespace mainspring
