// The finisher: sends all waiting outcomes in each call, until the server has answered.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "mainspring/breaker.h"
#include "model/program_end.h"
#include "worker/state.h"

namespace mainspring {
namespace {

std::size_t outcome_bytes(const Outcome& outcome) {
  struct Size {
    std::size_t operator()(const Complete& o) const {
      std::size_t bytes = o.result.size();
      for (const NewJob& job : o.next) bytes += job.args.size() + job.headers.size() + 256;
      return bytes;
    }
    std::size_t operator()(const Retry& o) const { return o.error.size(); }
    std::size_t operator()(const Snooze&) const { return 0; }
    std::size_t operator()(const Defer& o) const { return o.reason.size(); }
    std::size_t operator()(const CancelJob& o) const { return o.reason.size(); }
    std::size_t operator()(const Dead& o) const { return o.reason.size() + o.description.size(); }
  };
  return 64 + std::visit(Size{}, outcome);
}

// Cuts outcomes of handlers to their limits instead of refusing them: an attempt has been made.
void hold_within_bounds(Outcome& outcome) {
  const auto hold = [](std::optional<Duration>& time) {
    if (time) time = std::clamp(*time, kMinBreakerTime, kMaxBreakerTime);
  };
  if (auto* retry = std::get_if<Retry>(&outcome)) hold(retry->open_breaker_for);
  if (auto* snooze = std::get_if<Snooze>(&outcome)) hold(snooze->open_breaker_for);
  if (ProgramEnd* program = program_end_of(outcome)) hold_within_rules(*program);
}

// Why the server refused the outcome of a job.
std::string reason_of(const FinishResult& result, JobId id) {
  const auto part = std::find_if(result.refused.begin(), result.refused.end(),
                                 [&](const RefusedPart& one) { return one.id == id; });
  return part == result.refused.end() ? "" : part->error.message;
}

}  // namespace

Finish WorkerRuntime::State::next_finish() {
  Finish batch{.worker = incarnation};
  std::size_t bytes = 0;
  while (!done.empty() && batch.results.size() < kMaxFinishResults) {
    hold_within_bounds(done.front().outcome);
    const std::size_t size = outcome_bytes(done.front().outcome);
    if (bytes > 0 && bytes + size > kMaxCallBytes) break;
    bytes += size;
    batch.results.push_back(std::move(done.front()));
    done.pop_front();
  }
  return batch;
}

// If the server permanently refuses the outcome of a job, the job becomes dead: a retry would end
// the same way. Returns false if that failed; then the job runs again after its lease.
bool WorkerRuntime::State::bury(const JobOutcome& refused, const std::string& message) {
  const bool again = std::holds_alternative<Dead>(refused.outcome);
  if (again || MS_MUTANT(refused_outcome_dropped)) return false;
  done.push_back({refused.id, refused.token, Dead{"outcome_refused", message}});
  return true;
}

void WorkerRuntime::State::count_outcomes(const Finish& batch, const FinishResult& result) {
  struct Count {
    WorkerStats& stats;
    void operator()(const Complete&) const { ++stats.completed; }
    void operator()(const Retry&) const { ++stats.failed; }
    void operator()(const Snooze&) const { ++stats.snoozed; }
    void operator()(const Defer&) const { ++stats.deferred; }
    void operator()(const CancelJob&) const { ++stats.cancelled; }
    void operator()(const Dead&) const { ++stats.dead; }
  };
  struct Refused {
    JobId id = 0;
    std::string message;
    bool dead = false;
  };
  std::vector<Refused> refused;
  std::vector<JobId> late;
  {
    MutexLock lock(mutex);
    for (std::size_t i = 0; i < batch.results.size(); ++i) {
      const JobOutcome& outcome = batch.results[i];
      if (i < result.results.size() && result.results[i] == FinishStatus::ok) {
        std::visit(Count{stats}, outcome.outcome);
      } else if (i < result.results.size() && result.results[i] == FinishStatus::refused) {
        ++stats.refused;
        std::string message = reason_of(result, outcome.id);
        const bool dead = bury(outcome, message);
        refused.push_back({outcome.id, std::move(message), dead});
      } else {
        ++stats.stale;
        late.push_back(outcome.id);
      }
    }
  }
  for (const Refused& one : refused) {
    log.error(one.dead ? "the server refuses an outcome; the job is dead"
                       : "the server refuses an outcome; the job will run again",
              {{"job", fmt::to_string(one.id)}, {"message", one.message}});
  }
  for (JobId id : late) {
    log.warn("an outcome was too late: the worker had lost the job", {{"job", fmt::to_string(id)}});
  }
}

void WorkerRuntime::State::send(Finish batch) {
  Pauses pauses(random);
  for (bool first = true;; first = false) {
    {
      MutexLock lock(mutex);
      ++stats.finishes;
    }
    const Result<FinishResult> result = jobs.finish(batch);
    if (result) return count_outcomes(batch, *result);
    const Error& error = result.error();
    const Log::Fields fields = {{"jobs", fmt::to_string(batch.results.size())},
                                {"error", std::string(error.name())},
                                {"message", error.message}};
    if (MS_MUTANT(worker_gives_up_outcomes)) return;
    if (info(error.code).retryable == Retryable::no) {
      if (batch.results.size() > 1) return send_one_by_one(std::move(batch));
      log.error("the server refuses an outcome; the job will run again", fields);
      tell_refused(error);
      MutexLock lock(mutex);
      ++stats.refused;
      return;
    }
    if (first) log.warn("cannot report outcomes; retrying with back-off", fields);
    MutexLock lock(mutex);
    const Instant now = clock.now().instant;
    Instant until = now + pauses.next(error);
    while (clock.now().instant < std::min(until, give_up_at)) {
      finisher_cv.wait_for(mutex, std::min(until, give_up_at) - clock.now().instant);
    }
    if (clock.now().instant < give_up_at) continue;
    log.error("stopping before all outcomes were reported; the jobs will run again", fields);
    return;
  }
}

// A part of the batch is refused permanently: send the others separately.
void WorkerRuntime::State::send_one_by_one(Finish batch) {
  for (JobOutcome& outcome : batch.results) {
    Finish one{.worker = batch.worker};
    one.results.push_back(std::move(outcome));
    send(std::move(one));
  }
}

void WorkerRuntime::State::run_finisher() {
  mutex.lock();
  for (;;) {
    if (done.empty()) {
      if (finisher_end) break;
      finisher_waits = true;
      finisher_cv.wait(mutex);
      finisher_waits = false;
      continue;
    }
    Finish batch = next_finish();
    mutex.unlock();
    send(std::move(batch));
    mutex.lock();
  }
  mutex.unlock();
}

}  // namespace mainspring
