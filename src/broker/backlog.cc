// The backlog of queues, from the minutes of the history.
#include "broker/backlog.h"

#include <algorithm>

#include "broker/broker.h"

namespace mainspring {

WallTime backlog_from(WallTime now) {
  return step_start(std::max(now, WallTime() + kBacklogWindow) - kBacklogWindow, kHistoryMinute);
}

namespace {

// At the rate of completions; without one, each running job continues with a waiting one, or one
// worker starts.
std::optional<Duration> drain_of(const QueueStats& queue, const QueueBacklog& backlog) {
  if (backlog.jobs == 0) return Duration(0);
  if (queue.paused) return std::nullopt;
  const auto jobs = static_cast<double>(backlog.jobs);
  if (backlog.completions_per_second > 0) {
    return Duration(static_cast<std::int64_t>(jobs / backlog.completions_per_second * 1e6));
  }
  if (!backlog.service) return std::nullopt;
  const auto running = queue.counts[static_cast<std::size_t>(JobState::running)];
  const double each = static_cast<double>(backlog.service->count());
  return Duration(static_cast<std::int64_t>(jobs * each / std::max(1.0, double(running))));
}

}  // namespace

QueueBacklog backlog_of(const QueueStats& queue, const RecentCount* recent,
                        const ServiceTime& service, WallTime now) {
  QueueBacklog out;
  out.jobs = queue.counts[static_cast<std::size_t>(JobState::available)];
  if (queue.oldest_available) out.oldest = std::max(now - *queue.oldest_available, Duration(0));
  if (service.samples > 0) out.service = service.p50;
  if (recent != nullptr) {
    const WallTime from = std::max(recent->first, backlog_from(now));
    const auto seconds =
        static_cast<double>(std::max(now - from, kLeastBacklogWindow).count()) / 1e6;
    const HistoryCounts& counts = recent->counts;
    out.arrivals_per_second = static_cast<double>(counts.enqueued) / seconds;
    out.completions_per_second = static_cast<double>(counts.completed + counts.dead) / seconds;
  }
  out.drain = drain_of(queue, out);
  return out;
}

// Every caller gets the counts of the same kRecentFor, so that many readers cost one read.
Result<std::shared_ptr<const RecentCounts>> Broker::recent_counts() {
  const Now now = clock_.now();
  {
    MutexLock lock(recent_mutex_);
    if (recent_ != nullptr && now.instant < recent_at_ + kRecentFor) return recent_;
    // Idle: only a commit can add counts. Other nodes commit too.
    const bool idle = recent_ != nullptr && recent_->empty() && shared_ == nullptr;
    if (idle && recent_commits_ == store_.commits()) return recent_;
  }
  const std::int64_t commits = store_.commits();
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
  recent_commits_ = commits;
  return recent_;
}

namespace {

const RecentCount* count_of(const RecentCounts& recent, const std::string& queue) {
  const auto found = recent.find(queue);
  return found == recent.end() ? nullptr : &found->second;
}

}  // namespace

void Broker::add_backlogs(std::vector<QueueStats>& queues) {
  const auto recent = recent_counts();
  if (!recent) return;  // the queues are still listed without a backlog
  const WallTime now = clock_.now().wall;
  for (QueueStats& queue : queues) {
    const RecentCount* const counts = count_of(**recent, queue.name);
    queue.backlog =
        backlog_of(queue, counts, service_times_.of(store_, queue.name, counts, now), now);
  }
}

Result<ServiceTime> Broker::service_time(const std::string& queue) {
  MS_TRY_ASSIGN(const auto recent, recent_counts());
  return service_times_.of(store_, queue, count_of(*recent, queue), clock_.now().wall);
}

}  // namespace mainspring
