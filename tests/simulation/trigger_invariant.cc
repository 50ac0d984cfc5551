// Counts the jobs of events.
#include "simulation/trigger_invariant.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {

std::string TriggerInvariant::args(std::int64_t event) {
  return fmt::format(R"({{"event":{}}})", event);
}

std::string TriggerInvariant::id(std::int64_t event) {
  return fmt::format("e{}", event);
}

bool TriggerInvariant::knows(std::int64_t event) const {
  const auto told = told_.find(event);
  return told != told_.end() && told->second.job != 0;
}

void TriggerInvariant::answered(std::int64_t event, const OperationResult& result, bool known) {
  Told& told = told_[event];
  if (const Error* error = std::get_if<Error>(&result)) {
    const auto excuses = {ErrorCode::unavailable, ErrorCode::storage_full, ErrorCode::io_error};
    if (known && std::find(excuses.begin(), excuses.end(), error->code) == excuses.end())
      broken_ = fmt::format("TRIG-2: event {} is job {}, and then refused: {}", event, told.job,
                            error->message);
    return;
  }
  const auto& answer = std::get<TriggerFired>(result);
  duplicates_ += answer.duplicate ? 1 : 0;
  if (told.job != 0 && told.job != answer.job)
    broken_ =
        fmt::format("TRIG-1: event {} is job {}, and then job {}", event, told.job, answer.job);
  told.made += answer.duplicate ? 0 : 1;
  if (told.made > 1) broken_ = fmt::format("TRIG-1: event {} fired twice", event);
  told.job = answer.job;
}

std::string TriggerInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                      const Store& store) {
  JobId made = 0;
  for (std::size_t i = 0; report != nullptr && i < batch.size(); ++i) {
    const bool changes = std::holds_alternative<PauseTrigger>(batch[i]) ||
                         std::holds_alternative<PutTrigger>(batch[i]);
    if (changes) return "";  // the state within the batch is not visible
    const auto* fired = std::get_if<TriggerFired>(&report->results[i]);
    if (fired != nullptr && !fired->duplicate) made = fired->job;
  }
  if (made == 0) return "";
  const auto trigger = store.trigger(kTrigger);
  return trigger && trigger->paused ? fmt::format("TRIG-4: it is paused, and made job {}", made)
                                    : "";
}

void TriggerInvariant::add(const Job& job) {
  const std::int64_t event = number_after(job.args, "\"event\":", 0);
  if (event != 0) jobs_[event].push_back(job.id);
}

std::string TriggerInvariant::check_event(std::int64_t event,
                                          const std::vector<JobId>& jobs) const {
  if (jobs.size() > 1) return fmt::format("TRIG-1: event {} has {} jobs", event, jobs.size());
  const auto told = told_.find(event);
  const JobId job = told == told_.end() ? 0 : told->second.job;
  const bool open = told != told_.end() && told->second.open;
  if (job != 0 && job != jobs.front())
    return fmt::format("TRIG-1: event {} is job {}, its sender received {}", event, jobs.front(),
                       job);
  if (job == 0 && !open)
    return fmt::format("TRIG-2: event {} was refused, and has job {}", event, jobs.front());
  return "";
}

TriggerInvariant::Verdict TriggerInvariant::check(const TriggerInfo& trigger,
                                                  const std::vector<TriggerEvent>& ledger) const {
  Verdict verdict{.jobs = static_cast<std::int64_t>(jobs_.size()),
                  .duplicates = duplicates_,
                  .broken = broken_};
  for (const auto& [event, jobs] : jobs_) {
    if (std::string why = check_event(event, jobs); !why.empty()) verdict.broken = why;
  }
  for (const auto& [event, told] : told_) {
    if (told.job != 0 && !jobs_.contains(event))
      verdict.broken = fmt::format("TRIG-1: job {} of event {} is not there", told.job, event);
  }
  const auto rows = static_cast<std::int64_t>(ledger.size());
  if (trigger.fired != verdict.jobs || rows != verdict.jobs)
    verdict.broken = fmt::format("TRIG-3: {} jobs, {} counted, {} rows in the ledger", verdict.jobs,
                                 trigger.fired, rows);
  return verdict;
}

}  // namespace mainspring::simulation
