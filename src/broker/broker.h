// Broker: the only door to the store for changes. Folds concurrent requests into one commit, parks
// claims that find nothing, and hands them work in the very commit that makes it available.
//
//   callers ──submit──▶ [urgent │ enqueue │ claim]  ──step──▶ one batch ─▶ Store::apply ─▶ answers
//                        bounded queues                 ▲                       │
//                                              parked claims ◀── found nothing ─┘
//
// While one commit runs, whatever arrives waits for the next: under load one fdatasync serves
// hundreds of callers; a lone caller waits for one. No timer delays anybody. A parked claim whose
// queue gets a job in a batch is appended to that batch, so enqueue and hand-over share the commit.
// Renew, finish and cancel ("urgent") have room of their own: a full system can always be emptied.
//
// Threads: submit() and the Jobs calls from every thread. step() from one at a time; answers are
// called by it, without a lock held; they must not block and not call step().
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "broker/jobs.h"
#include "env/clock.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct BrokerOptions {
  // Jobs in enqueues that wait for a commit. Beyond: overloaded. Raise if bursts are refused; each
  // costs its bytes.
  std::size_t max_waiting_jobs = 200'000;
  std::size_t max_waiting_bytes = 256 << 20;
  // Claims parked at once. Beyond: overloaded.
  std::size_t max_parked_claims = 100'000;
  // Urgent operations (renew, finish, cancel, scheduler steps) waiting for a commit. Beyond:
  // overloaded.
  std::size_t max_waiting_urgent = 100'000;
  // Jobs and bytes touched by one commit (a single larger operation still goes alone). Raise for
  // throughput, lower for latency.
  std::size_t max_batch_jobs = 4'000;
  std::size_t max_batch_bytes = 32 << 20;
  // A worker is forgotten when it has not been heard of for so long.
  Duration worker_memory = std::chrono::minutes(5);
};

class Broker final : public Jobs {
 public:
  using Answer = std::function<void(OperationResult)>;
  // `store`, `clock`, `log` outlive the broker. Metrics are registered in `registry`.
  Broker(Store& store, const Clock& clock, Log& log, Registry& registry,
         BrokerOptions options = {});
  ~Broker() override;

  // Asynchronous door. The answer comes exactly once, from step() or, when refused, from submit()
  // itself.
  void submit(Operation operation, Answer answer) MS_EXCLUDES(mutex_);
  // A claim that may park up to `wait` from now. Returns a handle for abandon().
  using ParkId = std::uint64_t;
  ParkId submit_claim(Claim claim, Duration wait, Answer answer) MS_EXCLUDES(mutex_);
  // The caller of a claim went away: answers it empty unless it has been, or is being, answered.
  void abandon(ParkId id) MS_EXCLUDES(mutex_);
  // Calls back once when the job is terminal, at the latest with the first change after it. For GET
  // ?wait=. The caller re-reads the job. Returns a handle for unwatch().
  using WatchId = std::uint64_t;
  WatchId watch(JobId id, std::function<void()> changed) MS_EXCLUDES(mutex_);
  void unwatch(WatchId id) MS_EXCLUDES(mutex_);

  // One batch, if there is anything to do; then says when to call again at the latest:
  // Instant::never() = when something is submitted. Calling it early or often is harmless.
  Instant step(Now now) MS_EXCLUDES(mutex_, step_mutex_);

  // Called (from step) after a batch that may have changed the agenda; set before start().
  void on_agenda(std::function<void()> changed) { agenda_changed_ = std::move(changed); }
  // Called (from step) when the store can no longer be trusted; set before start().
  void on_fatal(std::function<void(const Error&)> fatal) { fatal_ = std::move(fatal); }
  Agenda agenda() const MS_EXCLUDES(step_mutex_);

  // The thread that steps. Start and stop may be called twice, in any order; stop waits. After
  // stop_claims() parked claims are answered empty and later ones are refused as unavailable; after
  // stop() everything is.
  void start() MS_EXCLUDES(mutex_);
  void stop_claims() MS_EXCLUDES(mutex_);
  void stop() MS_EXCLUDES(mutex_);

  std::size_t parked_claims() const MS_EXCLUDES(mutex_);

  // -- Jobs ---------------------------------------------------------------------------------------
  Result<EnqueueResult> enqueue(Enqueue request) override;
  Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) override;
  Result<RenewResult> renew(Renew request) override;
  Result<FinishResult> finish(Finish request) override;
  Result<CancelResult> cancel(Cancel request) override;
  Result<RetryResult> retry(RetryJob request) override;
  Result<RedriveResult> redrive(Redrive request) override;
  Result<void> pause_queue(PauseQueue request) override;
  Result<void> set_retention(SetRetention request) override;
  Result<Job> get(JobId id) override;
  Result<Job> wait(JobId id, Duration wait, std::stop_token stop) override;
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) override;
  Result<std::vector<QueueStats>> queues() override;
  Result<std::vector<WorkerInfo>> workers() override;
  // (private part follows)
