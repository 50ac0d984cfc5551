// ReaderPool: a few threads with one bounded queue, for reads of the store and large bodies.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace mainspring::http {

class ReaderPool {
 public:
  explicit ReaderPool(std::size_t max_waiting) : max_waiting_(max_waiting) {}
  ~ReaderPool() { stop(); }

  void start(int threads);
  // Drops waiting tasks and waits for running ones. May be called twice, and before start.
  void stop() MS_EXCLUDES(mutex_);
  // Returns false if max_waiting tasks wait already, or after stop(). Thread-safe.
  bool submit(std::function<void()> task) MS_EXCLUDES(mutex_);

 private:
  void run() MS_EXCLUDES(mutex_);

  const std::size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ MS_GUARDED_BY(mutex_);
  bool stopping_ MS_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace mainspring::http
