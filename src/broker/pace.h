// Pace: how many jobs of each queue end per second, from samples of its counters.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "store/operations.h"

namespace mainspring {

// Callers that read the counters pass them on as samples. Pace itself never reads them, so that an
// idle server does no work. Thread-safe.
class Pace {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(2);  // between compared samples
  static constexpr Duration kMost = std::chrono::minutes(5);   // the same
  static constexpr Duration kKept = std::chrono::seconds(30);  // between samples that are kept
  static constexpr std::size_t kMaxQueues = 1000;

  void note(std::span<const QueueStats> queues, Instant now);

  struct Seen {
    std::int64_t ended = 0;
    Duration in{0};
  };
  // The rate up to the sample at `now`; nullopt = there is no earlier sample to compare with.
  std::optional<Seen> of(const QueueStats& queue, Instant now) const;

 private:
  struct Look {
    Instant at;
    std::int64_t ended = 0;
  };
  struct Looks {
    std::optional<Look> before;  // at least kKept before `last`
    Look last;
  };
  mutable Mutex mutex_;
  std::map<std::string, Looks, std::less<>> queues_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
