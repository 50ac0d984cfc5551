// The ticker's thread: sleeps until the next step is due.
#include "host/ticker.h"

namespace mainspring {

Ticker::Ticker(const Clock& clock) : clock_(clock), thread_([this] { run(); }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(mutex_);
    end_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Ticker::Handle Ticker::add(Step step) {
  MutexLock lock(mutex_);
  const std::uint64_t id = ++last_;
  entries_[id] = {std::move(step), Instant()};
  changed_.notify_all();
  return Handle(nullptr, [this, id](void*) { remove(id); });
}

void Ticker::remove(std::uint64_t id) {
  MutexLock lock(mutex_);
  while (running_ == id) changed_.wait(mutex_);
  entries_.erase(id);
}

void Ticker::run() {
  mutex_.lock();
  while (!end_) {
    const Now now = clock_.now();
    Instant next = Instant::never();
    for (auto it = entries_.begin(); it != entries_.end();) {
      const std::uint64_t id = it->first;
      if (it->second.next <= now.instant) {
        running_ = id;
        Step& step = it->second.step;  // stays: remove() waits
        mutex_.unlock();
        const Instant wanted = step(now);
        mutex_.lock();
        running_ = 0;
        changed_.notify_all();
        it = entries_.find(id);
        it->second.next = wanted;
      }
      next = std::min(next, it->second.next);
      it = entries_.upper_bound(id);
    }
    if (end_) break;
    const Instant after = clock_.now().instant;
    if (next > after) {
      changed_.wait_for(mutex_, next == Instant::never() ? kForever : next - after);
    }
  }
  mutex_.unlock();
}

}  // namespace mainspring
