// FakeJobs: a Jobs for tests of whoever works on one. Gives what it was given, remembers what it
// was told, and can be made to fail or to hold an answer back.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "broker/jobs.h"
#include "env/clock.h"

namespace mainspring {

class FakeJobs : public Jobs {
 public:
  // Set before use; called without a lock held. Empty = the answer of a good server.
  std::function<Result<RenewResult>(const Renew&)> on_renew;
  std::function<Result<FinishResult>(const Finish&)> on_finish;
  std::function<std::optional<Error>()> on_claim;  // an error instead of jobs
  Duration lease = kDefaultLease;                  // of what is claimed

  JobId add(std::string kind, std::string args = "{}",
            const std::function<void(ClaimedJob&)>& change = {}) {
    MutexLock lock(mutex_);
    ClaimedJob job{.id = ++last_id_, .token = ++last_token_, .queue = "q"};
    job.kind = std::move(kind);
    job.args = std::move(args);
    job.lease = lease;
    if (change) change(job);
    waiting_.push_back(std::move(job));
    changed_.notify_all();
    return last_id_;
  }
  void tell_cancel(JobId id) {
    MutexLock lock(mutex_);
    cancels_.push_back(id);
    changed_.notify_all();
  }
  // Waits until `done`, which is called with the lock held. False after 20 s.
  bool await(const std::function<bool()>& done) {
    MutexLock lock(mutex_);
    return wait_until(done, std::chrono::seconds(20));
  }
  bool await_outcomes(std::size_t n) {
    return await([&] { return outcomes.size() >= n; });
  }
  template <class T>
  T outcome(JobId id) {
    MutexLock lock(mutex_);
    const auto it = outcomes.find(id);
    if (it == outcomes.end() || !std::holds_alternative<T>(it->second)) return T{};
    return std::get<T>(it->second);
  }
  template <class T>
  bool ended_as(JobId id) {
    MutexLock lock(mutex_);
    const auto it = outcomes.find(id);
    return it != outcomes.end() && std::holds_alternative<T>(it->second);
  }
  // Anything else the test wants to change or read under the same lock and condition.
  template <class F>
  auto with_lock(F&& f) {
    MutexLock lock(mutex_);
    struct Notify {
      CondVar& changed;
      ~Notify() { changed.notify_all(); }
    } notify{changed_};
    return f();
  }

  // What was seen; read under with_lock or await.
  std::vector<Claim> claims;
  std::vector<Renew> renews;
  std::vector<Finish> finishes;
  std::map<JobId, Outcome> outcomes;
  int parked = 0;  // claims that wait now

  Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) override {
    if (on_claim) {
      if (std::optional<Error> error = on_claim()) return *error;
    }
    std::stop_callback wake(stop, [this] { with_lock([] {}); });
    MutexLock lock(mutex_);
    claims.push_back(request);
    ++parked;
    changed_.notify_all();
    wait_until([&] { return has_job(request) || !cancels_.empty() || stop.stop_requested(); },
               wait);
    --parked;
    changed_.notify_all();
    ClaimResult result;
    result.cancel.swap(cancels_);
    for (auto it = waiting_.begin();
         it != waiting_.end() && result.jobs.size() < static_cast<std::size_t>(request.max);) {
      if (!wanted(request, *it)) {
        ++it;
        continue;
      }
      result.jobs.push_back(std::move(*it));
      it = waiting_.erase(it);
    }
    return result;
  }
  Result<RenewResult> renew(Renew request) override {
    RenewResult good;
    for (const Renewal& one : request.leases) good.renewed.push_back({one.id, request.lease});
    Result<RenewResult> result = on_renew ? on_renew(request) : good;
    MutexLock lock(mutex_);
    renews.push_back(std::move(request));
    changed_.notify_all();
    return result;
  }
  Result<FinishResult> finish(Finish request) override {
    FinishResult good;
    good.results.assign(request.results.size(), FinishStatus::ok);
    Result<FinishResult> result = on_finish ? on_finish(request) : good;
    MutexLock lock(mutex_);
    finishes.push_back(request);
    if (result) {
      for (JobOutcome& one : request.results) outcomes[one.id] = std::move(one.outcome);
    }
    changed_.notify_all();
    return result;
  }

  Result<EnqueueResult> enqueue(Enqueue) override { return unused(); }
  Result<CancelResult> cancel(Cancel) override { return unused(); }
  Result<RetryResult> retry(RetryJob) override { return unused(); }
  Result<RedriveResult> redrive(Redrive) override { return unused(); }
  Result<void> pause_queue(PauseQueue) override { return unused(); }
  Result<void> set_retention(SetRetention) override { return unused(); }
  Result<LeaseGrant> acquire_lease(AcquireLease, Duration, std::stop_token) override {
    return unused();
  }
  Result<LeaseGrant> renew_lease(RenewLease) override { return unused(); }
  Result<void> release_lease(ReleaseLease) override { return unused(); }
  Result<LeaseInfo> get_lease(const std::string&) override { return unused(); }
  Result<std::vector<LeaseInfo>> leases(const std::string&, int) override { return unused(); }
  Result<PutScheduleResult> put_schedule(Schedule, std::optional<bool>) override {
    return unused();
  }
  Result<void> remove_schedule(const std::string&) override { return unused(); }
  Result<void> pause_schedule(PauseSchedule) override { return unused(); }
  Result<void> set_timer(SetTimer) override { return unused(); }
  Result<FireResult> trigger_schedule(const std::string&, TickSource,
                                      std::optional<Overlap>) override {
    return unused();
  }
  Result<BackfillResult> backfill_schedule(Backfill) override { return unused(); }
  Result<ScheduleInfo> get_schedule(const std::string&) override { return unused(); }
  Result<std::vector<ScheduleInfo>> schedules(const std::string&, int) override { return unused(); }
  Result<LedgerPage> ledger(const std::string&, int, std::int64_t) override { return unused(); }
  Result<std::vector<PreviewTick>> preview_schedule(const std::string&, std::optional<WallTime>,
                                                    int) override {
    return unused();
  }
  Result<Job> get(JobId) override { return unused(); }
  Result<Job> wait(JobId, Duration, std::stop_token) override { return unused(); }
  Result<JobPage> list(const JobFilter&, int, JobId) override { return unused(); }
  Result<std::vector<QueueStats>> queues() override { return unused(); }
  Result<std::vector<WorkerInfo>> workers() override { return unused(); }

 private:
  static Error unused() { return Error{.message = "the fake does not do this"}; }
  static bool wanted(const Claim& claim, const ClaimedJob& job) {
    return claim.kinds.empty() ||
           std::find(claim.kinds.begin(), claim.kinds.end(), job.kind) != claim.kinds.end();
  }
  bool has_job(const Claim& claim) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const ClaimedJob& job) { return wanted(claim, job); });
  }

  bool wait_until(const std::function<bool()>& done, Duration limit) MS_REQUIRES(mutex_) {
    const Instant end = clock_.now().instant + limit;
    for (Instant now; !done(); changed_.wait_for(mutex_, end - now)) {
      if ((now = clock_.now().instant) >= end) return false;
    }
    return true;
  }

  SystemClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<ClaimedJob> waiting_;
  std::vector<JobId> cancels_;
  JobId last_id_ = 0;
  Token last_token_ = 100;
};

}  // namespace mainspring
