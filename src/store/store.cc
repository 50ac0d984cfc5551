// What every store does in the same way.
#include "store/store.h"

namespace mainspring {

Result<std::vector<Job>> Store::whole(const std::vector<JobId>& ids) const {
  std::vector<Job> jobs;
  jobs.reserve(ids.size());
  for (const JobId id : ids) {
    Result<Job> job = get(id);
    if (job) {
      jobs.push_back(std::move(*job));
      continue;
    }
    const ErrorCode code = job.error().code;
    if (code != ErrorCode::not_found && code != ErrorCode::expired) return job.error();
  }
  return jobs;
}

Result<std::int64_t> Store::count_jobs(const JobFilter& filter) const {
  MS_TRY_ASSIGN(const std::vector<QueueStats> all, queues());
  std::int64_t count = 0;
  for (const QueueStats& queue : all) {
    if (!filter.queue.empty() && filter.queue != queue.name) continue;
    if (!filter.within.has(queue.name)) continue;
    for (int i = 0; i < kJobStateCount; ++i) {
      const auto state = static_cast<JobState>(i);
      if (!filter.wants(state)) continue;
      count += queue.counts[static_cast<std::size_t>(i)];
      if (state == JobState::cancelled) count += queue.expired;
    }
  }
  return count;
}

}  // namespace mainspring
