// The commit loop's thread, and the broker's blocking calls.
#include <algorithm>

#include "broker/search.h"
#include "broker/sync_call.h"
#include "model/breaker.h"
#include "model/program_end.h"

namespace mainspring {

// -- the commit loop -----------------------------------------------------------------------------

void Broker::start() {
  MutexLock lock(mutex_);
  if (commit_loop_.joinable() || stopped_) return;
  commit_loop_ = std::jthread([this](std::stop_token stop) { run(stop); });
  start_writers();
}

void Broker::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    Instant next = step(clock_.now());
    const Instant now = clock_.now().instant;
    MutexLock lock(mutex_);
    next = std::min(next, writers_late_at());  // may have changed since
    if (has_work() || stop.stop_requested() || next <= now) continue;
    loop_waiting_ = true;
    loop_until_ = next;
    work_.wait_for(mutex_, next == Instant::never() ? kForever : next - now);
    loop_waiting_ = false;
  }
}

void Broker::wake_commit_loop(Instant next) {
  MutexLock lock(mutex_);
  if (commit_loop_is_late() || (loop_waiting_ && next < loop_until_)) work_.notify_one();
}

void Broker::ping(std::function<void()> turned) {
  MutexLock lock(mutex_);
  pings_.push_back(std::move(turned));
  if (loop_waiting_) work_.notify_one();
}

void Broker::stop_claims() {
  MutexLock lock(mutex_);
  claims_stopped_ = true;
  for (const auto& [id, parked] : parked_) abandoned_.push_back(id);
  for (const Pending& claim : claims_) abandoned_.push_back(claim.park_id);
  for (const ParkId id : lease_waiters_.ids()) abandoned_.push_back(id);
  if (loop_waiting_) work_.notify_one();
}

void Broker::stop() {
  stop_claims();
  stop_writers();
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(commit_loop_);
    thread.request_stop();
    if (loop_waiting_) work_.notify_one();
  }
  if (thread.joinable()) thread.join();
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  // Operations accepted before are answered by their commit.
  while (true) {
    step(clock_.now());
    MutexLock lock(mutex_);
    if (!has_work()) break;
    if (failed_) ready_.clear();
  }
  MutexLock step(step_mutex_);
  write_history(clock_.now());
}

// -- blocking calls ------------------------------------------------------------------------------

// If no thread steps, the calling thread does: a lone caller needs no thread switch. A thread that
// steps looks for more work before it releases step_mutex_, so no operation is left waiting.
void Broker::wait_for(SyncCall& sync) {
  while (!sync.done()) {
    if (step_mutex_.try_lock()) {
      const Instant next = sync.done() ? Instant::never() : step_locked(clock_.now());
      step_mutex_.unlock();
      wake_commit_loop(next);
      MutexLock lock(mutex_);
      if (has_work()) continue;
    } else {
      wake_commit_loop(Instant::never());  // the holder of the lock may not be stepping
    }
    MutexLock lock(sync.mutex);
    if (!sync.result) sync.answered.wait(sync.mutex);
  }
}

Result<EnqueueResult> Broker::enqueue(Enqueue request) {
  if (request.jobs.empty() || request.jobs.size() > kMaxEnqueueJobs) {
    return invalid("jobs", "jobs: must be 1 to 10000 in one request");
  }
  for (std::size_t i = 0; i < request.jobs.size(); ++i) {
    const std::string prefix = request.jobs.size() == 1 ? "" : "jobs[" + std::to_string(i) + "].";
    MS_TRY(validate(request.jobs[i], prefix));
    MS_TRY(check_starts(request.jobs[i], clock_.now().wall, prefix));
  }
  return call<EnqueueResult>(std::move(request));
}

Result<ClaimResult> Broker::claim(Claim request, Duration wait, std::stop_token stop) {
  SyncCall sync;
  const ParkId id = submit_claim(std::move(request), wait, sync.answer());
  std::stop_callback on_stop(stop, [&] { abandon(id); });
  wait_for(sync);
  return sync.take<ClaimResult>();
}

Result<RenewResult> Broker::renew(Renew request) {
  return call<RenewResult>(std::move(request));
}
Result<FinishResult> Broker::finish(Finish request) {
  for (const JobOutcome& result : request.results) {
    const auto time = open_breaker_for(result.outcome);
    if (time) MS_TRY(check_open_for("open_breaker_for", *time));
    if (const auto* program = program_end_of(result.outcome)) MS_TRY(check_program_end(*program));
  }
  return call<FinishResult>(std::move(request));
}
Result<CancelResult> Broker::cancel(Cancel request) {
  return call<CancelResult>(std::move(request));
}
Result<RetryResult> Broker::retry(RetryJob request) {
  return call<RetryResult>(request);
}
Result<RedriveResult> Broker::redrive(Redrive request) {
  return call<RedriveResult>(std::move(request));
}

Result<void> Broker::pause_queue(PauseQueue request) {
  MS_TRY(check_name("queue", request.queue));
  if (request.paused) MS_TRY(check_pause(request, clock_.now().wall));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::probe_write() {
  MS_TRY(call<Done>(WriteProbe{}));
  return {};
}

Instant Broker::last_commit() const {
  MutexLock lock(mutex_);
  return committed_at_;
}

Result<void> Broker::set_queue_limits(SetQueueLimits request) {
  MS_TRY(check_name("queue", request.queue));
  MS_TRY(validate(request.limits));
  request.limits = without_default_costs(std::move(request.limits));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::remove_queue(const std::string& name) {
  MS_TRY(check_name("queue", name));
  MS_TRY(call<Done>(RemoveQueue{.queue = name}));
  return {};
}

Result<void> Broker::set_retention(SetRetention request) {
  MS_TRY(check_name("queue", request.queue));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

// -- reads ---------------------------------------------------------------------------------------

Result<Job> Broker::get(JobId id) {
  return store_.get(id);
}

Result<MemoPage> Broker::memos(JobId id, const std::string& from, int limit) {
  return store_.memos(id, from, limit);
}

void Broker::wait_until(JobId watched, Duration wait, std::stop_token stop,
                        const std::function<bool()>& done) {
  Mutex mutex;
  CondVar changed;
  bool woken = false, stopped = false;
  const auto wake = [&] {
    MutexLock lock(mutex);
    woken = true;
    changed.notify_one();
  };
  const Instant deadline = clock_.now().instant + wait;
  for (bool over = false; !over;) {
    // Watch before reading, so that a change between the two is not missed.
    const WatchId handle = watch(watched, wake);
    {
      std::stop_callback on_stop(stop, wake);
      over = done();
      MutexLock lock(mutex);
      while (!over && !woken) {
        const Instant now = clock_.now().instant;
        over = now >= deadline;
        if (!over) changed.wait_for(mutex, deadline - now);
      }
      stopped = stop.stop_requested();
      over = over || stopped;
      woken = false;
    }
    unwatch(handle);
    // The stepping thread may be about to run a callback that it took before unwatch().
    MutexLock step(step_mutex_);
  }
}

Result<Job> Broker::wait(JobId id, Duration wait, std::stop_token stop) {
  wait_until(id, wait, std::move(stop), [&] {
    const auto job = get_watched(id);
    return !job || is_terminal(job->state);
  });
  return get_watched(id);
}

Result<JobPage> Broker::list(const JobFilter& filter, int limit, JobId before) {
  return search_jobs(store_, filter, limit, before);
}

Result<std::vector<QueueStats>> Broker::queues() {
  auto queues = store_.queues();
  if (!queues) return queues;
  pace_.note(*queues, clock_.now().instant);
  add_backlogs(*queues);
  return queues;
}

std::vector<WorkerInfo> Broker::own_workers() {
  const Instant now = clock_.now().instant;
  MutexLock lock(mutex_);
  std::vector<WorkerInfo> out;
  out.reserve(workers_.size());
  for (const auto& [id, worker] : workers_) {
    if (worker.last_seen == Instant()) continue;  // its first request is on its way
    // A worker that was killed still has the jobs that it claimed; it lost them with its lease.
    const bool holds_leases = now < worker.renewed + worker.lease;
    out.push_back({.id = id,
                   .queues = worker.queues,
                   .running = holds_leases ? worker.running : 0,
                   .last_seen = std::max(now - worker.last_seen, Duration(0)),
                   .facts = worker.facts == nullptr ? WorkerFacts() : *worker.facts,
                   .command = commands_.of(id)});
  }
  std::sort(out.begin(), out.end(),
            [](const WorkerInfo& a, const WorkerInfo& b) { return a.id < b.id; });
  for (const auto& [id, parked] : parked_) {
    const auto at =
        std::lower_bound(out.begin(), out.end(), parked->claim.worker,
                         [](const WorkerInfo& a, const std::string& b) { return a.id < b; });
    if (at == out.end() || at->id != parked->claim.worker) continue;
    at->parked = true;
    at->last_seen = Duration(0);
  }
  return out;
}

}  // namespace mainspring
