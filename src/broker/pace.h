// Pace: how many jobs of each queue end in a second, as those see who look at its counters now and
// then.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "store/operations.h"

namespace mainspring {

// Whoever reads the counters tells it what it read; nobody reads them for its sake, so that an idle
// server does nothing. Any thread.
class Pace {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(2);  // between two that are compared
  static constexpr Duration kMost = std::chrono::minutes(5);   // the same
  static constexpr Duration kKept = std::chrono::seconds(30);  // until the next is one to keep
  static constexpr std::size_t kMaxQueues = 1000;

  void note(std::span<const QueueStats> queues, Instant now);

  struct Seen {
    std::int64_t ended = 0;
    Duration in{0};
  };
  // Up to the look at `now`; nullopt = there was none before it to compare with.
  std::optional<Seen> of(const QueueStats& queue, Instant now) const;

 private:
  struct Look {
    Instant at;
    std::int64_t ended = 0;
  };
  struct Looks {
    std::optional<Look> before;  // kKept before `last` at least
    Look last;
  };
  mutable Mutex mutex_;
  std::map<std::string, Looks, std::less<>> queues_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
