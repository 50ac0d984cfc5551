// Lists the jobs in quarantine page by page, and releases them.
#include "broker/quarantined.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace mainspring {
namespace {

constexpr int kQuarantinePage = 200;

bool comes_before(const Job& a, const Job& b) {
  return std::tie(a.queue, a.priority, a.run_at, a.id) <
         std::tie(b.queue, b.priority, b.run_at, b.id);
}

Result<void> add_of_queue(Jobs& jobs, const std::string& queue, std::vector<Job>& out) {
  JobFilter filter;
  filter.queue = queue;
  filter.quarantined = true;
  JobId before = 0;
  do {
    MS_TRY_ASSIGN(JobPage page, jobs.list(filter, kQuarantinePage, before));
    for (Job& job : page.jobs) {
      if (job.quarantined) out.push_back(std::move(job));
    }
    before = page.next.value_or(0);
  } while (before != 0 && out.size() < kMaxQuarantineListed);
  return {};
}

}  // namespace

Result<std::vector<Job>> quarantined_jobs(Jobs& jobs, const std::string& queue) {
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, jobs.queues());
  std::vector<Job> out;
  for (const QueueStats& one : queues) {
    if (one.quarantined == 0 || (!queue.empty() && one.name != queue)) continue;
    MS_TRY(add_of_queue(jobs, one.name, out));
  }
  std::sort(out.begin(), out.end(), comes_before);
  out.resize(std::min(out.size(), kMaxQuarantineListed));
  return out;
}

Result<RetryResult> release_from_quarantine(Jobs& jobs, JobId id) {
  MS_TRY_ASSIGN(const Job job, jobs.get(id));
  if (!job.quarantined) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {} is not in quarantine", id)};
  }
  return jobs.retry(RetryJob{.id = id});
}

}  // namespace mainspring
