// The reader threads.
#include "http/readers.h"

#include <utility>

namespace mainspring::http {

void ReaderPool::start(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void ReaderPool::stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock: they may take locks
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    changed_.notify_all();
  }
  threads_.clear();  // joins
}

bool ReaderPool::submit(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (stopping_ || tasks_.size() >= max_waiting_) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void ReaderPool::run() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace mainspring::http
