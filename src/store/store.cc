// Behaviour common to all stores.
#include "store/store.h"

#include <fmt/format.h>

#include <tuple>

#include "model/fingerprint.h"

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

Result<DeadCounts> Store::dead_counts(const std::string& queue, std::int64_t limit,
                                      const Within& within, WallTime since) const {
  constexpr int kPage = 200;
  JobFilter filter{.queue = queue, .kind = {}, .tag = {}, .state = JobState::dead};
  std::map<std::tuple<std::string, std::string, std::string>, DeadCount> counts;
  DeadCounts out;
  JobId before = 0;
  for (;;) {
    const auto wanted = std::min<std::int64_t>(kPage, limit - out.examined);
    MS_TRY_ASSIGN(const JobPage page, list(filter, static_cast<int>(wanted), before));
    for (const Job& job : page.jobs) {
      ++out.examined;
      const WallTime at = job.finished_at.value_or(job.created_at);
      if (!within.has(job.queue) || at < since) continue;
      std::string fingerprint = fingerprint_of(job);
      DeadCount& count = counts[{job.queue, job.kind, fingerprint}];
      if (count.count++ == 0) {
        count = {.queue = job.queue,
                 .kind = job.kind,
                 .fingerprint = std::move(fingerprint),
                 .count = 1,
                 .last = job.id,
                 .first_at = at,
                 .last_at = at};
      }
      count.first = job.id;
      count.first_at = std::min(count.first_at, at);
      count.last_at = std::max(count.last_at, at);
    }
    if (!page.next) break;
    before = *page.next;
    out.cut = out.examined >= limit;
    if (out.cut) break;
  }
  for (auto& [key, count] : counts) out.counts.push_back(std::move(count));
  return out;
}

Error too_many_searchable(std::string_view queue) {
  return {.code = ErrorCode::conflict,
          .message = fmt::format("searchable: {} queues have searchable paths: must be at most {}. "
                                 "Remove those of another queue before you add some to {}",
                                 kMaxSearchableQueues, kMaxSearchableQueues, queue),
          .field = "searchable"};
}

}  // namespace mainspring
