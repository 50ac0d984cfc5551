// QueueLabels: the label of a queue in metrics. The first kMost queues have their own name, the
// others share "other", so that metrics stay bounded in a store with many queues.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "store/operations.h"

namespace mainspring {

class QueueLabels {
 public:
  // With "other", and 8 states of each, these are Registry::kMaxSeries.
  static constexpr std::size_t kMost = 249;

  // The label of each queue, in the same order. A queue keeps its label until it is removed.
  // Thread-safe.
  std::vector<std::string> of(std::span<const QueueStats> queues) MS_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::set<std::string, std::less<>> named_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
