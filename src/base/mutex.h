// Mutex, MutexLock and CondVar that clang's thread-safety analysis understands (preset "clang").
// A member guarded by a mutex says so: `int count_ MS_GUARDED_BY(mutex_);`.
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "mainspring/time.h"

#if defined(__clang__)
#define MS_ANNOTATE(x) __attribute__((x))
#else
#define MS_ANNOTATE(x)
#endif
#define MS_GUARDED_BY(x) MS_ANNOTATE(guarded_by(x))
#define MS_REQUIRES(...) MS_ANNOTATE(requires_capability(__VA_ARGS__))
#define MS_EXCLUDES(...) MS_ANNOTATE(locks_excluded(__VA_ARGS__))
#define MS_NO_THREAD_SAFETY_ANALYSIS MS_ANNOTATE(no_thread_safety_analysis)

namespace mainspring {

class MS_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() MS_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() MS_ANNOTATE(release_capability()) { mutex_.unlock(); }
  bool try_lock() MS_ANNOTATE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class MS_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MS_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() MS_ANNOTATE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Spurious wake-ups are possible: always wait in a loop over the condition.
class CondVar {
 public:
  void wait(Mutex& mutex) MS_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // Real (steady) time; kForever waits without a limit.
  void wait_for(Mutex& mutex, Duration limit) MS_REQUIRES(mutex) {
    if (limit == kForever) return wait(mutex);
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(
        lock, std::chrono::steady_clock::now() + std::min(limit, Duration(std::chrono::hours(24))));
    lock.release();
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace mainspring
