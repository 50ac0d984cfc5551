// The index of running jobs: entries, and the ended ones that open views may still need.
#include "sql_store/running_jobs.h"

#include <algorithm>

namespace mainspring::sql {

void RunningJobs::add(std::vector<RunningJob>& started) {
  MutexLock lock(mutex_);
  for (RunningJob& job : started) {
    const auto [at, fresh] = jobs_.try_emplace(job.id);
    // Ended and claimed again in one batch: earlier snapshots have the first lease.
    if (!fresh) retire(std::move(at->second));
    at->second = std::move(job);
  }
}

void RunningJobs::remove(const std::vector<std::pair<JobId, Token>>& ended) {
  MutexLock lock(mutex_);
  for (const auto& [id, token] : ended) {
    const auto at = jobs_.find(id);
    if (at == jobs_.end() || at->second.token != token) continue;
    if (!views_.empty()) retire(std::move(at->second));
    jobs_.erase(at);
  }
  ++removals_;
  trim();
}

void RunningJobs::replace(std::vector<RunningJob> all) {
  std::map<JobId, RunningJob> jobs;
  for (RunningJob& job : all) jobs.insert_or_assign(job.id, std::move(job));
  MutexLock lock(mutex_);
  jobs_.swap(jobs);
}

// Views opened after the next removal do not need it.
void RunningJobs::retire(RunningJob job) {
  order_.push_back({removals_ + 1, job.id, job.token});
  ended_.insert_or_assign({job.id, job.token}, std::move(job));
}

void RunningJobs::trim() const {
  while (!order_.empty() && (views_.empty() ? order_.front().seq <= removals_
                                            : order_.front().seq <= *views_.begin())) {
    ended_.erase({order_.front().id, order_.front().token});
    order_.pop_front();
  }
}

RunningJobs::View::View(const RunningJobs& jobs) : jobs_(jobs) {
  MutexLock lock(jobs_.mutex_);
  place_ = jobs_.views_.insert(jobs_.removals_);
}

RunningJobs::View::~View() {
  MutexLock lock(jobs_.mutex_);
  jobs_.views_.erase(place_);
  jobs_.trim();
}

RunningJob RunningJobs::View::find(JobId id, Token row, Token next) const {
  MutexLock lock(jobs_.mutex_);
  const auto at = jobs_.jobs_.find(id);
  if (at != jobs_.jobs_.end() && at->second.token > row && at->second.token < next)
    return at->second;
  // The newest lease in the snapshot.
  auto old = jobs_.ended_.lower_bound({id, next});
  if (old == jobs_.ended_.begin()) return {};
  --old;
  if (old->first.first != id || old->first.second <= row) return {};
  return old->second;
}

JobId RunningJobs::View::below(JobId before, std::int64_t queue, std::int32_t kind,
                               std::size_t limit, std::size_t& most,
                               std::vector<JobId>& out) const {
  const auto wanted = [&](const RunningJob& job) {
    return (queue == 0 || job.queue == queue) && (kind == 0 || job.kind == kind);
  };
  MutexLock lock(jobs_.mutex_);
  auto at = jobs_.jobs_.lower_bound(before);
  auto old = jobs_.ended_.lower_bound({before, 0});
  while (at != jobs_.jobs_.begin() || old != jobs_.ended_.begin()) {
    const JobId live = at == jobs_.jobs_.begin() ? 0 : std::prev(at)->first;
    const JobId gone = old == jobs_.ended_.begin() ? 0 : std::prev(old)->first.first;
    if (out.size() >= limit || most == 0) return std::max(live, gone) + 1;
    --most;
    const RunningJob& job = live >= gone ? (--at)->second : (--old)->second;
    if (wanted(job) && (out.empty() || out.back() != job.id)) out.push_back(job.id);
  }
  return 0;
}

}  // namespace mainspring::sql
