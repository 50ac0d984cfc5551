// The dead letter of an engine, passed on to the broker or the server.
#include <algorithm>

#include "api/shapes.h"
#include "broker/jobs.h"
#include "broker/questions.h"
#include "engine/checks.h"
#include "mainspring/dead_letter.h"
#include "model/fingerprint.h"

namespace mainspring {
namespace {

constexpr int kPage = 200;       // read at once
constexpr int kMaxPages = 1000;  // a page may be short

Result<JobFilter> filter_of(const DeadFilter& dead) {
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

void keep_only(std::vector<Job>& jobs, const std::string& fingerprint) {
  if (fingerprint.empty()) return;
  std::erase_if(jobs, [&](const Job& job) { return fingerprint_of(job) != fingerprint; });
}

// Those behind `after`, oldest first.
Result<std::vector<JobId>> find(Jobs& jobs, const JobFilter& filter, const std::string& fingerprint,
                                JobId after) {
  std::vector<JobId> found;
  JobId before = 0;
  for (int pages = 0; pages < kMaxPages && found.size() < kMaxDeadLooked; ++pages) {
    MS_TRY_ASSIGN(JobPage page, jobs.list(filter, kPage, before));
    keep_only(page.jobs, fingerprint);
    for (const Job& job : page.jobs) {
      if (job.id > after) found.push_back(job.id);
    }
    if (!page.next || *page.next <= after) break;
    before = *page.next;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

// False: somebody has removed it, or something forbids it.
Result<bool> retry(Jobs& jobs, JobId id) {
  const auto retried = jobs.retry(RetryJob{.id = id});
  if (retried) return true;
  const ErrorCode code = retried.error().code;
  if (code == ErrorCode::not_found || code == ErrorCode::expired || code == ErrorCode::conflict) {
    return false;
  }
  return retried.error();
}

}  // namespace

Result<DeadPage> EngineDead::list(const DeadFilter& filter, int limit, JobId before) {
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("before", before));
  MS_TRY_ASSIGN(const JobFilter dead, filter_of(filter));
  MS_TRY_ASSIGN(JobPage page, jobs_->list(dead, limit, before));
  keep_only(page.jobs, filter.fingerprint);
  return DeadPage{std::move(page.jobs), page.next};
}

Result<DeadGroups> EngineDead::groups(const DeadFilter& filter) {
  MS_TRY(filter_of(filter));
  if (!filter.fingerprint.empty()) {
    return invalid("fingerprint", "fingerprint: groups are what says them; list() takes one");
  }
  return questions_->dead_groups(filter);
}

Result<Redriven> EngineDead::redrive(const DeadFilter& filter, int limit, JobId after) {
  MS_TRY(check_limit(limit, kMaxRedriveJobs));
  MS_TRY(check_position("after", after));
  MS_TRY_ASSIGN(JobFilter dead, filter_of(filter));
  if (filter.fingerprint.empty()) {
    dead.state.reset();  // a redrive is of the dead
    MS_TRY_ASSIGN(RedriveResult result,
                  jobs_->redrive({.filter = std::move(dead), .limit = limit, .after = after}));
    return Redriven{result.redriven, std::move(result.ids), result.next};
  }
  MS_TRY_ASSIGN(std::vector<JobId> ids, find(*jobs_, dead, filter.fingerprint, after));
  Redriven out;
  if (std::ssize(ids) > limit) {
    ids.resize(static_cast<std::size_t>(limit));
    out.next = ids.back();
  }
  for (const JobId id : ids) {
    MS_TRY_ASSIGN(const bool done, retry(*jobs_, id));
    if (done) out.ids.push_back(id);
  }
  out.redriven = static_cast<int>(out.ids.size());
  return out;
}

}  // namespace mainspring
