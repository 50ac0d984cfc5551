// Ticker: one thread for all periodic checks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "env/clock.h"

namespace mainspring {

class Ticker {
 public:
  // Called with the current time; returns the time of the next call (never() = no more).
  using Step = std::function<Instant(Now now)>;

  explicit Ticker(const Clock& clock);
  ~Ticker();  // all handles must have ended

  // Calls `step` soon, then at the times it returns, on the ticker's thread, until the handle ends.
  // The end of the handle waits for a call in progress.
  using Handle = std::shared_ptr<void>;
  Handle add(Step step);

 private:
  struct Entry {
    Step step;
    Instant next;
  };
  void run();
  void remove(std::uint64_t id);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::uint64_t, Entry> entries_ MS_GUARDED_BY(mutex_);
  std::uint64_t last_ MS_GUARDED_BY(mutex_) = 0;
  std::uint64_t running_ MS_GUARDED_BY(mutex_) = 0;  // the entry that is being called; 0 = none
  bool end_ MS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mainspring
