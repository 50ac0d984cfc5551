// Dead-letter operations of an engine, forwarded to the broker or the server.
#include <algorithm>

#include "api/shapes.h"
#include "broker/dead_groups.h"
#include "broker/jobs.h"
#include "broker/questions.h"
#include "engine/checks.h"
#include "mainspring/dead_letter.h"
#include "model/fingerprint.h"
#include "redrive/found_dead.h"

namespace mainspring {
namespace {

void keep_only(std::vector<Job>& jobs, const std::string& fingerprint) {
  if (fingerprint.empty()) return;
  std::erase_if(jobs, [&](const Job& job) { return fingerprint_of(job) != fingerprint; });
}

}  // namespace

Result<DeadPage> EngineDead::list(const DeadFilter& filter, int limit, JobId before) {
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("before", before));
  MS_TRY_ASSIGN(const JobFilter dead, job_filter_of(filter));
  MS_TRY_ASSIGN(JobPage page, jobs_->list(dead, limit, before));
  keep_only(page.jobs, filter.fingerprint);
  return DeadPage{std::move(page.jobs), page.next};
}

Result<DeadGroups> EngineDead::groups(const DeadFilter& filter, WallTime since) {
  MS_TRY(job_filter_of(filter));
  if (!filter.fingerprint.empty()) {
    return invalid("fingerprint",
                   "fingerprint: must not be given to groups(), which returns fingerprints; list() "
                   "accepts one");
  }
  return questions_->dead_groups(filter, since);
}

Result<Redriven> EngineDead::redrive(const DeadFilter& filter, int limit, JobId after) {
  MS_TRY(check_limit(limit, kMaxRedriveJobs));
  MS_TRY(check_position("after", after));
  MS_TRY_ASSIGN(JobFilter dead, job_filter_of(filter));
  if (filter.fingerprint.empty()) {
    dead.state.reset();  // a redrive only affects dead jobs
    MS_TRY_ASSIGN(RedriveResult result,
                  jobs_->redrive({.filter = std::move(dead), .limit = limit, .after = after}));
    return Redriven{result.redriven, std::move(result.ids), result.next};
  }
  MS_TRY_ASSIGN(std::vector<DeadJob> found, find_dead(*jobs_, filter, after, kMaxDeadLooked));
  Redriven out;
  if (std::ssize(found) > limit) {
    found.resize(static_cast<std::size_t>(limit));
    out.next = found.back().id;
  }
  for (const DeadJob& one : found) {
    MS_TRY_ASSIGN(const bool done, retry_dead(*jobs_, one.id));
    if (done) out.ids.push_back(one.id);
  }
  out.redriven = static_cast<int>(out.ids.size());
  return out;
}

Result<RedriveStarted> EngineDead::start_redrive(const DeadFilter& filter,
                                                 const RedrivePace& pace) {
  return questions_->start_redrive(filter, pace);
}

}  // namespace mainspring
