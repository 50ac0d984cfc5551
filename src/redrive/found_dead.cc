// The dead letter is read a page at a time, from the newest to the oldest.
#include "redrive/found_dead.h"

#include <algorithm>

#include "model/fingerprint.h"

namespace mainspring {
namespace {

constexpr int kPage = 200;  // read at once; a page may be short

}  // namespace

Result<JobFilter> job_filter_of(const DeadFilter& dead) {
  if (!dead.queue.empty()) MS_TRY(check_name("queue", dead.queue));
  if (!dead.kind.empty()) MS_TRY(check_name("kind", dead.kind));
  if (!dead.fingerprint.empty()) MS_TRY(check_fingerprint("fingerprint", dead.fingerprint));
  JobFilter filter;
  filter.queue = dead.queue;
  filter.kind = dead.kind;
  filter.tag = dead.tag;
  filter.state = JobState::dead;
  return filter;
}

Result<std::vector<DeadJob>> find_dead(Jobs& jobs, const DeadFilter& filter, JobId after,
                                       std::size_t most) {
  MS_TRY_ASSIGN(const JobFilter dead, job_filter_of(filter));
  std::vector<DeadJob> found;
  JobId before = 0;
  while (found.size() < most) {
    MS_TRY_ASSIGN(const JobPage page, jobs.list(dead, kPage, before));
    for (const Job& job : page.jobs) {
      std::string fingerprint = fingerprint_of(job);
      const bool wanted = filter.fingerprint.empty() || fingerprint == filter.fingerprint;
      if (job.id > after && wanted && found.size() < most)
        found.push_back({job.id, std::move(fingerprint), job.attempt});
    }
    if (!page.next || *page.next <= after) break;
    before = *page.next;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace mainspring
