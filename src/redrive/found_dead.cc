// The dead letter is read a page at a time, from the newest to the oldest.
#include "redrive/found_dead.h"

#include <algorithm>

#include "broker/dead_groups.h"
#include "model/fingerprint.h"

namespace mainspring {
namespace {

constexpr int kPage = 200;  // read at once; a page may be short

}  // namespace

Result<bool> retry_dead(Jobs& jobs, JobId id) {
  const auto retried = jobs.retry({.id = id});
  if (retried) return true;
  const ErrorCode code = retried.error().code;
  const bool passed_over =
      code == ErrorCode::conflict || code == ErrorCode::not_found || code == ErrorCode::expired;
  if (passed_over) return false;
  return retried.error();
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
