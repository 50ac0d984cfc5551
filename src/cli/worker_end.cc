// The end of workers: keeps the first refusal, and wakes waiting polls at a stop.
#include "cli/worker_end.h"

#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

constexpr Duration kPoll = 250ms;

}  // namespace

void Refusal::note(const Error& error) {
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
  }
  signals_.request();
}

void Refusal::watch(WorkerRuntime& worker) {
  worker.on_refused([this](const Error& error) { note(error); });
}

namespace {

// The answer to a claim when there is nothing more to claim.
ClaimResult wait_for_stop(const std::stop_token& stop) {
  Mutex mutex;
  CondVar wake;
  const std::stop_callback on_stop(stop, [&] {
    const MutexLock lock(mutex);
    wake.notify_all();
  });
  const MutexLock lock(mutex);
  while (!stop.stop_requested()) wake.wait(mutex);
  return {};
}

}  // namespace

void Refusal::name_job(WorkerRuntime& worker, Jobs& jobs, JobId job) {
  worker.claim_with(
      [this, &jobs, job, asked = false](Claim claim, Duration,
                                        std::stop_token stop) mutable -> Result<ClaimResult> {
        if (asked) return wait_for_stop(stop);
        claim.job = job;
        claim.max = 1;
        claim.kinds.clear();
        Result<ClaimResult> got = jobs.claim(std::move(claim), Duration(0), stop);
        const bool again = !got && info(got.error().code).retryable != Retryable::no;
        if (!got && !again) note(got.error());
        asked = !again;
        if (got || again) return got;
        return wait_for_stop(stop);
      });
}

void Refusal::take_one(WorkerRuntime& worker, Jobs& jobs) {
  worker.claim_with([&jobs, given = false](Claim claim, Duration wait,
                                           std::stop_token stop) mutable -> Result<ClaimResult> {
    if (given) return wait_for_stop(stop);
    claim.max = 1;
    Result<ClaimResult> got = jobs.claim(std::move(claim), wait, stop);
    given = got && !got->jobs.empty();
    return got;
  });
}

void Refusal::obey(WorkerOptions& options) {
  options.on_stop_command = [this] {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    signals_.request();
  };
}

bool Refusal::stopped_by_operator() {
  const MutexLock lock(mutex_);
  return stopped_;
}

Result<int> Refusal::exit_code() {
  const MutexLock lock(mutex_);
  if (error_) return *error_;
  return kExitOk;
}

void wait_until(StopSignals& signals, const std::function<bool()>& done) {
  Mutex mutex;
  CondVar wake;
  const std::stop_callback on_stop(signals.stop(), [&] {
    const MutexLock lock(mutex);
    wake.notify_all();
  });
  while (!signals.stop().stop_requested() && !done()) {
    const MutexLock lock(mutex);
    if (!signals.stop().stop_requested()) wake.wait_for(mutex, kPoll);
  }
}

}  // namespace mainspring::cli
