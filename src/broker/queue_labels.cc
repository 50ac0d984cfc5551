// Labels of queues: a queue keeps its label; free labels go to the next queues without one.
#include "broker/queue_labels.h"

namespace mainspring {

std::vector<std::string> QueueLabels::of(std::span<const QueueStats> queues) {
  std::set<std::string, std::less<>> kept;
  MutexLock lock(mutex_);
  for (const QueueStats& queue : queues) {
    if (named_.contains(queue.name)) kept.insert(queue.name);
  }
  for (const QueueStats& queue : queues) {
    if (kept.size() >= kMost) break;
    kept.insert(queue.name);
  }
  named_.swap(kept);
  std::vector<std::string> labels;
  labels.reserve(queues.size());
  for (const QueueStats& queue : queues)
    labels.push_back(named_.contains(queue.name) ? queue.name : "other");
  return labels;
}

}  // namespace mainspring
