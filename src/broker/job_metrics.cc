// Counts and durations of attempts, as Prometheus sees them.
#include "broker/job_metrics.h"

#include <algorithm>
#include <string_view>

namespace mainspring {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Outcome>> kOutcomeNames = {
    "complete", "retry", "snooze", "cancel", "dead", "defer"};

}  // namespace

JobMetrics::JobMetrics(Registry& registry) : registry_(registry) {
  for (std::size_t i = 0; i < kRemarkFaults; ++i) {
    ignored_[i] = &registry_.counter("mainspring_program_remarks_ignored_total",
                                     "Remarks of programs that workers ignored, by reason.",
                                     {{"reason", std::string(to_string(RemarkFault(i)))}});
  }
}

JobMetrics::Queue& JobMetrics::queue_of(const std::string& name) {
  const auto [found, fresh] = queues_.try_emplace(name);
  Queue& queue = found->second;
  if (!fresh) return queue;
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const Labels labels = {{"queue", name}, {"outcome", std::string(kOutcomeNames[i])}};
    queue.total[i] = &registry_.counter(
        "mainspring_attempts_total", "Attempts that workers ended, by queue and outcome.", labels);
    queue.seconds[i] = &registry_.histogram("mainspring_attempt_seconds",
                                            "Time from the claim to the outcome of an attempt.",
                                            duration_buckets(), labels);
  }
  return queue;
}

void JobMetrics::claimed(const ClaimResult& result, Instant now) {
  Queue* queue = nullptr;
  const std::string* name = nullptr;
  for (const ClaimedJob& job : result.jobs) {
    if (name == nullptr || *name != job.queue) {
      queue = &queue_of(job.queue);
      name = &job.queue;
    }
    running_.insert_or_assign(job.id, Running{queue, now});
  }
}

void JobMetrics::finished(const Finish& finish, const FinishResult& result, Instant now) {
  for (std::size_t i = 0; i < finish.results.size(); ++i) {
    if (result.results[i] != FinishStatus::ok) continue;
    const std::size_t outcome = finish.results[i].outcome.index();
    const auto found = running_.find(finish.results[i].id);
    if (found == running_.end()) {
      queue_of("unknown").total[outcome]->add();
      continue;
    }
    const Running& running = found->second;
    running.queue->total[outcome]->add();
    running.queue->seconds[outcome]->observe(static_cast<double>((now - running.since).count()) /
                                             1e6);
    running_.erase(found);
  }
}

void JobMetrics::renewed(const Renew& renew, const RenewResult& result) {
  for (const Renewal& lease : renew.leases) {
    if (!lease.warning) continue;
    const bool counts = std::any_of(result.renewed.begin(), result.renewed.end(),
                                    [&](const Renewed& job) { return job.id == lease.id; });
    for (std::size_t i = 0; counts && i < kRemarkFaults; ++i) {
      if (lease.warning->counts[i] > 0) ignored_[i]->add(lease.warning->counts[i]);
    }
  }
}

void JobMetrics::ended(const std::vector<JobId>& ids) {
  if (running_.empty()) return;
  for (const JobId id : ids) running_.erase(id);
}

}  // namespace mainspring
