// Keeps a list of deferred jobs from the requests to the store and its answers.
#include "simulation/defer_invariant.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::simulation {
namespace {

constexpr std::uint64_t kLookAtBatches = 16;
constexpr Duration kAtOnce = std::chrono::seconds(2);

}  // namespace

std::string DeferInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                    const Store& store) {
  new_.clear();
  by_name_.clear();
  pauses_ = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (report == nullptr) {
      forget(batch[i]);
    } else if (std::string why = see(batch[i], report->results[i]); !why.empty()) {
      return why;
    }
  }
  if (report == nullptr) return "";
  // A job with a cancel request ends instead. A dying server does not answer.
  for (const auto& [id, attempt] : new_) {
    const auto job = store.get(id);
    const bool unknown = !job && job.error().code != ErrorCode::not_found;
    if (unknown || (job && job->state == JobState::cancelled)) deferred_.erase(id);
  }
  if (!by_name_.empty()) {
    if (std::string why = check_named(store); !why.empty()) return why;
  }
  if (new_.empty() && ++batches_ % kLookAtBatches != 0) return "";
  return look(store);
}

std::string DeferInvariant::see(const Operation& operation, const OperationResult& result) {
  if (std::holds_alternative<Error>(result)) return "";
  if (const auto* got = std::get_if<ClaimResult>(&result))
    return given(std::get<Claim>(operation), *got);
  if (const auto* finish = std::get_if<Finish>(&operation)) {
    const auto& statuses = std::get<FinishResult>(result).results;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      const auto found = running_.find(finish->results[i].id);
      if (statuses[i] != FinishStatus::ok || found == running_.end()) continue;
      if (std::holds_alternative<Defer>(finish->results[i].outcome)) {
        deferred_[found->first] = new_[found->first] = found->second;
        ++defers_;
      }
      running_.erase(found);
    }
  }
  if (std::holds_alternative<RetryJob>(operation) || std::holds_alternative<Cancel>(operation))
    forget(operation);
  pauses_ = pauses_ || std::holds_alternative<PauseQueue>(operation);
  return "";
}

std::string DeferInvariant::given(const Claim& claim, const ClaimResult& result) {
  for (const ClaimedJob& job : result.jobs) {
    if (job.queue != kDeferQueue) continue;
    running_[job.id] = job.attempt;
    if (claim.job == job.id) by_name_.push_back(job.id);
    const auto found = deferred_.find(job.id);
    if (found == deferred_.end()) continue;
    if (claim.job != job.id)
      return fmt::format("DEF-1: job {} is deferred, and given to a claim that does not name it",
                         job.id);
    if (job.attempt != found->second || !job.deferred)
      return fmt::format("DEF-2: attempt {} of job {} was deferred, and is now {}", found->second,
                         job.id, job.attempt);
    deferred_.erase(found);
    new_.erase(job.id);
  }
  return "";
}

// The jobs that it names may have changed by now.
void DeferInvariant::forget(const Operation& operation) {
  const auto drop = [&](JobId id) { deferred_.erase(id), new_.erase(id); };
  if (const auto* claim = std::get_if<Claim>(&operation)) drop(claim->job), running_.clear();
  if (const auto* retry = std::get_if<RetryJob>(&operation)) drop(retry->id);
  if (const auto* cancel = std::get_if<Cancel>(&operation)) drop(cancel->id);
  if (const auto* finish = std::get_if<Finish>(&operation)) {
    for (const JobOutcome& one : finish->results) running_.erase(one.id);
  }
}

std::string DeferInvariant::look(const Store& store) const {
  for (const auto& [id, attempt] : deferred_) {
    const auto job = store.get(id);
    if (!job && job.error().code != ErrorCode::not_found) return "";  // the server is dying
    if (job && job->state == JobState::waiting && job->deferred && job->attempt == attempt - 1)
      continue;
    return fmt::format(
        "DEF-2: attempt {} of job {} was deferred, and the job is {}", attempt, id,
        job ? fmt::format("{}, attempt {}", to_string(job->state), job->attempt) : "not there");
  }
  return "";
}

std::string DeferInvariant::check_named(const Store& store) const {
  const auto queues = store.queues();
  for (const QueueStats& queue : queues ? *queues : std::vector<QueueStats>()) {
    if (queue.name == kDeferQueue && queue.paused && !pauses_)
      return fmt::format("DEF-4: queue {} is paused, and gives job {} to a claim that names it",
                         queue.name, by_name_.front());
  }
  for (const JobId id : by_name_) {
    const auto job = store.get(id);
    if (job && !job->session.empty())
      return fmt::format("DEF-4: job {} of session {} is given by its id", id, job->session);
  }
  return "";
}

std::string DeferInvariant::answered(JobId id, const OperationResult& answer, Duration after) {
  if (after > kAtOnce)
    return fmt::format("DEF-3: a claim that names job {} waited {} ms", id, after.count() / 1000);
  const auto* got = std::get_if<ClaimResult>(&answer);
  if (got == nullptr) return ++refused_, "";
  ++named_;
  if (got->jobs.size() == 1 && got->jobs[0].id == id) return "";
  return fmt::format("DEF-3: a claim that names job {} got {} jobs{}", id, got->jobs.size(),
                     got->jobs.empty() ? "" : fmt::format(", job {}", got->jobs[0].id));
}

}  // namespace mainspring::simulation
