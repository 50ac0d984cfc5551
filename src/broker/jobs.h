// Jobs: what a program can ask of a job engine, wherever it is.
//
// Broker (an engine in this process) and Client (a server elsewhere) both are one, so workers, the
// command line and user programs are written once. All calls block and are safe from every thread.
#pragma once

#include <functional>
#include <stop_token>

#include "store/store.h"

namespace mainspring {

class Jobs {
 public:
  virtual ~Jobs() = default;

  // Errors: invalid_argument, too_large, conflict (idempotency key with another body), overloaded,
  // storage_full, unavailable. Durable when it returns. A remote enqueue without an idempotency key
  // gets one, so that it can be repeated safely when the connection breaks.
  virtual Result<EnqueueResult> enqueue(Enqueue request) = 0;
  // Waits up to `wait` for the first job; empty if there was none, or when `stop` is requested.
  virtual Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) = 0;
  virtual Result<RenewResult> renew(Renew request) = 0;
  virtual Result<FinishResult> finish(Finish request) = 0;
  virtual Result<CancelResult> cancel(Cancel request) = 0;
  virtual Result<RetryResult> retry(RetryJob request) = 0;
  virtual Result<RedriveResult> redrive(Redrive request) = 0;
  virtual Result<void> pause_queue(PauseQueue request) = 0;
  virtual Result<void> set_retention(SetRetention request) = 0;

  virtual Result<Job> get(JobId id) = 0;
  // The job once it is terminal, or as it is when `wait` has passed or `stop` is requested.
  virtual Result<Job> wait(JobId id, Duration wait, std::stop_token stop) = 0;
  virtual Result<JobPage> list(const JobFilter& filter, int limit, JobId before) = 0;
  virtual Result<std::vector<QueueStats>> queues() = 0;
  virtual Result<std::vector<WorkerInfo>> workers() = 0;
};

}  // namespace mainspring
