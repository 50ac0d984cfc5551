// The backlog of queues, from the minutes of the history.
#include "broker/backlog.h"

#include <algorithm>

#include "broker/broker.h"

namespace mainspring {

WallTime backlog_from(WallTime now) {
  return step_start(std::max(now, WallTime() + kBacklogWindow) - kBacklogWindow, kHistoryMinute);
}

QueueBacklog backlog_of(const QueueStats& queue, const RecentCount* recent, WallTime now) {
  QueueBacklog out;
  out.jobs = queue.counts[static_cast<std::size_t>(JobState::available)];
  if (queue.oldest_available) out.oldest = std::max(now - *queue.oldest_available, Duration(0));
  if (out.jobs == 0) out.drain = Duration(0);
  if (recent == nullptr) return out;
  const WallTime from = std::max(recent->first, backlog_from(now));
  const auto seconds = static_cast<double>(std::max(now - from, kLeastBacklogWindow).count()) / 1e6;
  const HistoryCounts& counts = recent->counts;
  out.arrivals_per_second = static_cast<double>(counts.enqueued) / seconds;
  out.completions_per_second = static_cast<double>(counts.completed + counts.dead) / seconds;
  if (!counts.run.empty()) out.service = counts.run.percentile(0.5);
  if (out.jobs > 0 && !queue.paused && out.completions_per_second > 0) {
    const double drain = static_cast<double>(out.jobs) / out.completions_per_second;
    out.drain = Duration(static_cast<std::int64_t>(drain * 1e6));
  }
  return out;
}

// Every caller gets the counts of the same kRecentFor, so that many readers cost one read.
Result<std::shared_ptr<const RecentCounts>> Broker::recent_counts() {
  const Now now = clock_.now();
  {
    MutexLock lock(recent_mutex_);
    if (recent_ != nullptr && now.instant < recent_at_ + kRecentFor) return recent_;
  }
  const WallTime from = backlog_from(now.wall);
  auto fresh = std::make_shared<RecentCounts>();
  MS_TRY(read_with_unwritten([&](const HistoryRows& unwritten) -> Result<void> {
    MS_TRY_ASSIGN(*fresh, store_.recent(from));
    for (const HistoryRow& row : unwritten) {
      if (row.at >= from) (*fresh)[row.queue].add(row.at, row.counts);
    }
    return {};
  }));
  MutexLock lock(recent_mutex_);
  recent_ = fresh;
  recent_at_ = now.instant;
  return recent_;
}

void Broker::add_backlogs(std::vector<QueueStats>& queues) {
  const auto recent = recent_counts();
  if (!recent) return;  // the queues are still listed without a backlog
  const WallTime now = clock_.now().wall;
  for (QueueStats& queue : queues) {
    const auto counts = (*recent)->find(queue.name);
    queue.backlog = backlog_of(queue, counts == (*recent)->end() ? nullptr : &counts->second, now);
  }
}

}  // namespace mainspring
