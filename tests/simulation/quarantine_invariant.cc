// Counts lost attempts from the claims, and reads the running jobs from the store.
#include "simulation/quarantine_invariant.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::simulation {

std::string QuarantineInvariant::applied(std::span<const Operation> batch,
                                         const BatchReport* report, const Store& store) {
  given_.clear();
  for (std::size_t i = 0; i < batch.size(); ++i)
    report == nullptr ? doubt(batch[i]) : see(batch[i], report->results[i]);
  return given_.empty() ? "" : check(store);
}

void QuarantineInvariant::see(const Operation& operation, const OperationResult& result) {
  if (std::holds_alternative<Error>(result)) return;
  if (const auto* got = std::get_if<ClaimResult>(&result)) return given(*got);
  if (const auto* finish = std::get_if<Finish>(&operation)) {
    const auto& statuses = std::get<FinishResult>(result).results;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      const auto found = jobs_.find(finish->results[i].id);
      if (statuses[i] == FinishStatus::ok && found != jobs_.end()) found->second = {};
    }
  } else if (const auto* retry = std::get_if<RetryJob>(&operation)) {
    if (const auto found = jobs_.find(retry->id); found != jobs_.end()) found->second = {};
  }
}

// The jobs that it may have touched were lost as often as is known, or never.
void QuarantineInvariant::doubt(const Operation& operation) {
  const auto never = [&](JobId id) {
    if (const auto found = jobs_.find(id); found != jobs_.end())
      found->second = {.lost = 0, .runs = false, .all = false};
  };
  if (const auto* finish = std::get_if<Finish>(&operation)) {
    for (const JobOutcome& one : finish->results) never(one.id);
  } else if (const auto* retry = std::get_if<RetryJob>(&operation)) {
    never(retry->id);
  } else if (const auto* claim = std::get_if<Claim>(&operation)) {
    const auto& queues = claim->queues;
    if (std::find(queues.begin(), queues.end(), kPoisonQueue) == queues.end()) return;
    doubts_ = true;
    for (auto& [id, seen] : jobs_) seen.all = false;
  }
}

void QuarantineInvariant::given(const ClaimResult& result) {
  for (const ClaimedJob& job : result.jobs) {
    if (job.queue != kPoisonQueue) continue;
    const auto [at, first] = jobs_.try_emplace(job.id);
    Seen& seen = at->second;
    if (first && doubts_ && job.attempt > 1) seen.all = false;
    if (seen.runs && job.attempt > seen.attempt) ++seen.lost, seen.uncounted = 0;
    if (seen.runs && job.attempt == seen.attempt) ++seen.uncounted;
    seen.attempt = job.attempt;
    seen.runs = true;
    given_.push_back(job.id);
  }
}

std::string QuarantineInvariant::check(const Store& store) {
  for (const JobId id : given_) {
    const Seen& seen = jobs_.at(id);
    const bool apart = seen.lost >= kDefaultQuarantineAfter;
    if (seen.all && seen.uncounted > kMaxUnstartedLosses)
      return fmt::format("QUAR-4: job {} was lost {} times without counting", id, seen.uncounted);
    if (!seen.runs || (!apart && !seen.all)) continue;
    const auto job = store.get(id);
    if (!job || job->state != JobState::running) continue;
    if (apart && (!job->quarantined || !job->quarantined->released))
      return fmt::format("QUAR-2: job {} was lost {} times, and begins like any other", id,
                         seen.lost);
    if (!apart && job->quarantined)
      return fmt::format("QUAR-3: job {} was lost {} times, and begins in quarantine", id,
                         seen.lost);
    apart_ += apart ? 1 : 0;
  }
  std::vector<JobId> run;
  for (const auto& [id, seen] : jobs_) {
    if (!seen.runs || seen.lost < kDefaultQuarantineAfter) continue;
    const auto job = store.get(id);
    if (job && job->state == JobState::running) run.push_back(id);
  }
  if (run.size() < 2) return "";
  return fmt::format("QUAR-1: jobs {} and {} were lost twice, and run at once", run[0], run[1]);
}

}  // namespace mainspring::simulation
