// Counts and durations of attempts for Prometheus.
#include "broker/job_metrics.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "model/trace_context.h"
#include "tracing/job_traces.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Outcome>> kOutcomeNames = {
    "complete", "retry", "snooze", "cancel", "dead", "defer"};
constexpr std::size_t kCompleteOutcome = 0, kCancelOutcome = 3, kDeadOutcome = 4;
static_assert(std::is_same_v<std::variant_alternative_t<kCompleteOutcome, Outcome>, Complete> &&
              std::is_same_v<std::variant_alternative_t<kCancelOutcome, Outcome>, CancelJob> &&
              std::is_same_v<std::variant_alternative_t<kDeadOutcome, Outcome>, Dead>);

// For exemplars; "" = the job is not traced.
std::string trace_id_of(const ClaimedJob& job, const JobTraces* traces) {
  if (job.headers.empty()) return "";
  const auto context = traces != nullptr ? traces->context_of(job) : trace_of(job.headers);
  return context && context->sampled ? hex_of(context->trace) : "";
}

void observe(Histogram& histogram, Duration time, const std::string& trace_id, WallTime now) {
  const double seconds = static_cast<double>(time.count()) / 1e6;
  trace_id.empty() ? histogram.observe(seconds) : histogram.observe(seconds, trace_id, now);
}

}  // namespace

JobMetrics::JobMetrics(Registry& registry, HistoryCounter& history)
    : registry_(registry), history_(history) {
  for (std::size_t i = 0; i < kRemarkFaults; ++i) {
    ignored_[i] = &registry_.counter("mainspring_program_remarks_ignored_total",
                                     "Ignored lines of job programs by reason.",
                                     {{"reason", std::string(to_string(RemarkFault(i)))}});
  }
}

JobMetrics::Queue& JobMetrics::queue_of(const std::string& name) {
  const auto known = queues_.find(name);
  if (known != queues_.end()) return known->second;
  const std::string label = queues_.size() < QueueLabels::kMost ? name : "other";
  const auto [found, fresh] = queues_.try_emplace(label);
  Queue& queue = found->second;
  if (!fresh) return queue;
  queue.wait = &registry_.histogram("mainspring_job_wait_seconds",
                                    "Time from the due time of a job to its claim, by queue.",
                                    job_duration_buckets(), {{"queue", label}});
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const Labels labels = {{"queue", label}, {"outcome", std::string(kOutcomeNames[i])}};
    queue.total[i] = &registry_.counter("mainspring_attempts_total",
                                        "Ended attempts by queue and outcome.", labels);
    queue.seconds[i] = &registry_.histogram("mainspring_attempt_seconds",
                                            "Time from the claim of an attempt to its outcome.",
                                            job_duration_buckets(), labels);
  }
  return queue;
}

void JobMetrics::note(const Operation& operation, const OperationResult& result,
                      const JobTraces* traces, Now now) {
  if (const auto* made = std::get_if<EnqueueResult>(&result)) {
    history_.enqueued(std::get<Enqueue>(operation), *made, now.wall);
  } else if (const auto* claim = std::get_if<ClaimResult>(&result)) {
    claimed(*claim, traces, now);
  } else if (const auto* finish = std::get_if<FinishResult>(&result)) {
    finished(std::get<Finish>(operation), *finish, now);
  } else if (const auto* fire = std::get_if<FireResult>(&result)) {
    fired_.insert(fired_.end(), fire->jobs.begin(), fire->jobs.end());
  }
}

void JobMetrics::claimed(const ClaimResult& result, const JobTraces* traces, Now now) {
  Queue* queue = nullptr;
  HistoryCounter::SeriesPtr series;
  for (const ClaimedJob& job : result.jobs) {
    const bool same_queue = series != nullptr && series->queue == job.queue;
    if (!same_queue) queue = &queue_of(job.queue);
    if (!same_queue || series->kind != job.kind) series = history_.series(job.queue, job.kind);
    std::string trace_id = trace_id_of(job, traces);
    HistoryCounts& counts = history_.at(*series, now.wall);
    ++counts.started;
    const Duration waited = std::max(now.wall - job.run_at, Duration(0));
    counts.wait.add(waited);
    observe(*queue->wait, waited, trace_id, now.wall);
    history_.claimed(job.id, series);
    running_.insert_or_assign(job.id,
                              Running{queue, now.instant, series, kNoOutcome, std::move(trace_id)});
  }
}

void JobMetrics::finished(const Finish& finish, const FinishResult& result, Now now) {
  for (std::size_t i = 0; i < finish.results.size(); ++i) {
    if (result.results[i] != FinishStatus::ok) continue;
    const JobOutcome& of = finish.results[i];
    const std::size_t outcome = of.outcome.index();
    const bool is_failure =
        std::holds_alternative<Retry>(of.outcome) || std::holds_alternative<Dead>(of.outcome);
    const auto found = running_.find(of.id);
    if (found == running_.end()) {
      queue_of("unknown").total[outcome]->add();
      if (is_failure) history_.failed(of.id, now.wall);
      continue;
    }
    Running& running = found->second;
    if (running.outcome != kNoOutcome) continue;  // the request was repeated
    running.outcome = outcome;
    const Duration ran = now.instant - running.since;
    running.queue->total[outcome]->add();
    observe(*running.queue->seconds[outcome], ran, running.trace_id, now.wall);
    if (is_failure) ++history_.at(*running.series, now.wall).failed;
    if (is_failure || std::holds_alternative<Complete>(of.outcome)) {
      history_.at(*running.series, now.wall).run.add(ran);
    }
    if (!std::holds_alternative<Complete>(of.outcome)) given_back_.push_back(of.id);
  }
}

// The outcome says how the job ended, except for the last retry: that may be dead or cancelled.
void JobMetrics::ended(JobId id, HistoryCounter::Lost lost, Now now) {
  const auto found = running_.find(id);
  if (found == running_.end()) return history_.ended(id, nullptr, lost, now.wall);
  const Running running = std::move(found->second);
  running_.erase(found);
  HistoryCounts& counts = history_.at(*running.series, now.wall);
  switch (running.outcome) {
    case kCompleteOutcome:
      ++counts.completed;
      return;
    case kCancelOutcome:
      ++counts.cancelled;
      return;
    case kDeadOutcome:
      ++counts.dead;
      return;
    case kNoOutcome:
      return history_.ended(id, running.series, lost, now.wall);
    default:
      return history_.ended(id, running.series, HistoryCounter::Lost::no, now.wall);
  }
}

void JobMetrics::end_batch(std::span<const Operation> operations,
                           std::span<const OperationResult> results, const Effects& effects,
                           Now now) {
  const bool rescued = std::any_of(operations.begin(), operations.end(), [](const Operation& o) {
    return std::holds_alternative<RescueExpired>(o);
  });
  const auto lost = rescued ? HistoryCounter::Lost::maybe : HistoryCounter::Lost::no;
  if (!effects.made.empty() || !fired_.empty()) {
    fired_.insert(fired_.end(), effects.made.begin(), effects.made.end());
    note_made(std::exchange(fired_, {}), now);
  }
  if (rescued && !effects.again.empty()) note_lost(operations, results, effects.again, now);
  for (const JobId id : effects.ended) ended(id, lost, now);
  for (const JobId id : given_back_) {
    const auto found = running_.find(id);
    if (found != running_.end() && found->second.outcome != kNoOutcome) running_.erase(found);
  }
  given_back_.clear();
}

void JobMetrics::note_made(std::vector<JobId> ids, Now now) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const JobId id : ids) {
    if (id == 0) continue;  // a tick that was skipped
    const auto claimed = running_.find(id);
    history_.made(id, claimed == running_.end() ? nullptr : claimed->second.series, now.wall);
  }
}

// Jobs that stay live: rescued ones, whose attempt failed, and those that an operator retried.
void JobMetrics::note_lost(std::span<const Operation> operations,
                           std::span<const OperationResult> results,
                           const std::vector<JobId>& again, Now now) {
  std::unordered_set<JobId> retried;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (const auto* retry = std::get_if<RetryJob>(&operations[i])) retried.insert(retry->id);
    if (const auto* redriven = std::get_if<RedriveResult>(&results[i]))
      retried.insert(redriven->ids.begin(), redriven->ids.end());
  }
  for (const JobId id : again) {
    if (retried.contains(id)) {
      running_.erase(id);  // of a job that was taken back
      continue;
    }
    const auto found = running_.find(id);
    if (found == running_.end()) {
      history_.failed(id, now.wall);
      continue;
    }
    ++history_.at(*found->second.series, now.wall).failed;
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

}  // namespace mainspring
