// Pace: compares two samples of each queue, one older than the other.
#include "broker/pace.h"

namespace mainspring {
namespace {

// Only grows, except when dead jobs are retried.
std::int64_t ended_of(const QueueStats& queue) {
  std::int64_t n = queue.pruned + queue.expired;
  for (int i = 0; i < kJobStateCount; ++i) {
    if (is_terminal(static_cast<JobState>(i))) n += queue.counts[static_cast<std::size_t>(i)];
  }
  return n;
}

}  // namespace

void Pace::note(std::span<const QueueStats> queues, Instant now) {
  MutexLock lock(mutex_);
  for (const QueueStats& queue : queues) {
    const Look look{now, ended_of(queue)};
    const auto known = queues_.find(queue.name);
    if (known == queues_.end()) {
      if (queues_.size() < kMaxQueues) queues_.emplace(queue.name, Looks{{}, look});
    } else if (now - known->second.last.at >= kKept) {
      known->second = {known->second.last, look};
    }
  }
}

std::optional<Pace::Seen> Pace::of(const QueueStats& queue, Instant now) const {
  MutexLock lock(mutex_);
  const auto known = queues_.find(queue.name);
  if (known == queues_.end()) return std::nullopt;
  for (const std::optional<Look>& look : {known->second.before, {known->second.last}}) {
    if (!look || now - look->at > kMost || now - look->at < kLeast) continue;
    return Seen{std::max<std::int64_t>(0, ended_of(queue) - look->ended), now - look->at};
  }
  return std::nullopt;
}

}  // namespace mainspring
