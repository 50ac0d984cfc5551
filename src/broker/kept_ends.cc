// Keeps watched jobs with a short retention after their end, for watchers that read after the job
// was pruned.
#include "broker/broker.h"
#include "store/bounds.h"

namespace mainspring {
namespace {

constexpr Duration kKeptFor = std::chrono::seconds(30);
constexpr std::size_t kMaxKeptBytes = 64 << 20;

}  // namespace

void Broker::keep_ends(const std::vector<JobId>& ended, Now now) {
  std::vector<JobId> watched;
  {
    MutexLock lock(mutex_);
    for (const JobId id : ended) {
      if (watches_.contains(id)) watched.push_back(id);
    }
  }
  std::vector<std::shared_ptr<const Job>> jobs;
  for (const JobId id : watched) {
    if (auto job = store_.get(id)) jobs.push_back(std::make_shared<Job>(std::move(*job)));
  }
  MutexLock lock(mutex_);
  for (auto& job : jobs) {
    kept_ends_bytes_ += listed_bytes(*job);
    kept_ends_by_id_.insert_or_assign(job->id, job);
    kept_ends_.push_back({now.instant, std::move(job)});
  }
  while (!kept_ends_.empty() &&
         (kept_ends_bytes_ > kMaxKeptBytes || kept_ends_.front().at + kKeptFor < now.instant)) {
    const auto& oldest = kept_ends_.front().job;
    kept_ends_bytes_ -= listed_bytes(*oldest);
    const auto found = kept_ends_by_id_.find(oldest->id);
    if (found != kept_ends_by_id_.end() && found->second == oldest) kept_ends_by_id_.erase(found);
    kept_ends_.pop_front();
  }
}

Result<Job> Broker::get_watched(JobId id) {
  auto job = store_.get(id);
  if (job || job.error().code != ErrorCode::expired) return job;
  MutexLock lock(mutex_);
  const auto kept = kept_ends_by_id_.find(id);
  if (kept == kept_ends_by_id_.end()) return job;
  return *kept->second;
}

}  // namespace mainspring
