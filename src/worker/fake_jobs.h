// FakeJobs: a Jobs for tests of its callers. Returns preset values, records its calls, and can fail
// or delay an answer.
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
  // Set before use; called without a lock held. Empty = the answer of a working server.
  std::function<Result<RenewResult>(const Renew&)> on_renew;
  std::function<Result<FinishResult>(const Finish&)> on_finish;
  std::function<std::optional<Error>()> on_claim;  // an error instead of jobs
  bool is_older = false;  // a server that does not know the fields trouble and stuck
  std::function<std::optional<Error>()> on_memos;  // an error instead of memos; with the lock held
  Duration lease = kDefaultLease;                  // of claimed jobs
  std::optional<Duration> granted;  // the lease of each renewal; nullopt = what it asks for
  const Clock* time = nullptr;      // ends named leases; nullptr = real time
  // Instead of waiting, a claim that finds no job calls this with its wait, and ends. With the lock
  // held.
  std::function<void(Duration)> on_idle_claim;

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
  void tell_command(WorkerCommand command) {
    MutexLock lock(mutex_);
    command_ = command;
    changed_.notify_all();
  }
  // Waits until `done`, which is called with the lock held. False after a minute.
  bool await(const std::function<bool()>& done) {
    MutexLock lock(mutex_);
    return wait_until(done, std::chrono::minutes(1));
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
  // Runs any function of a test under the same lock, and notifies waiters.
  template <class F>
  auto with_lock(F&& f) {
    MutexLock lock(mutex_);
    struct Notify {
      CondVar& changed;
      ~Notify() { changed.notify_all(); }
    } notify{changed_};
    return f();
  }

  // Recorded calls; read under with_lock or await.
  std::vector<Claim> claims;
  std::vector<Renew> renews;
  std::vector<Finish> finishes;
  std::map<JobId, Outcome> outcomes;
  int parked = 0;                                            // claims that wait now
  std::map<JobId, std::map<std::string, std::string>> kept;  // memos of successful renewals
  int memo_reads = 0;

  Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) override {
    if (on_claim) {
      if (std::optional<Error> error = on_claim()) return *error;
    }
    std::stop_callback wake(stop, [this] { with_lock([] {}); });
    MutexLock lock(mutex_);
    claims.push_back(request);
    const WorkerFacts* const facts = request.facts.get();
    if (is_older && facts != nullptr && (facts->stuck != 0 || !facts->trouble.empty()))
      return unknown_field("stuck");
    ++parked;
    changed_.notify_all();
    if (on_idle_claim && !has_job(request)) {
      on_idle_claim(wait);
      wait = Duration(0);
    }
    wait_until(
        [&] {
          return has_job(request) || !cancels_.empty() || stop.stop_requested() ||
                 command_ != WorkerCommand::none;
        },
        wait);
    --parked;
    changed_.notify_all();
    ClaimResult result;
    result.command = command_;
    if (command_ != WorkerCommand::none) return result;
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
    const bool accepts = next_session && parse_accept_queue(request.queues.front());
    if (accepts && !result.jobs.empty()) {
      Session& held = sessions_[*next_session];
      held = {request.worker, ++last_token_, request.lease, held.state};
      result.session = SessionGrant{
          .session = *next_session, .token = held.token, .lease = held.lease, .state = held.state};
    }
    return result;
  }
  Result<RenewResult> renew(Renew request) override {
    RenewResult good;
    const Duration given = granted.value_or(request.lease);
    for (const Renewal& one : request.leases) good.renewed.push_back({one.id, given});
    Result<RenewResult> result = on_renew ? on_renew(request) : good;
    if (is_older && request.stuck) result = unknown_field("stuck");
    MutexLock lock(mutex_);
    if (result) result->command = command_;
    for (const Renewal& one : request.leases) {
      for (const Memo& memo : one.memos) {
        if (result) kept[one.id].emplace(memo.name, memo.result);
      }
    }
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
      for (JobOutcome& one : request.results) {
        for (auto& [name, info] : schedules_) std::erase(info.live, one.id);
        outcomes[one.id] = std::move(one.outcome);
      }
    }
    changed_.notify_all();
    return result;
  }

  Result<EnqueueResult> enqueue(Enqueue) override { return unused(); }
  Result<CancelResult> cancel(Cancel) override { return unused(); }
  Result<RetryResult> retry(RetryJob request) override {
    MutexLock lock(mutex_);
    retried.push_back(request.id);
    states[request.id] = JobState::available;
    changed_.notify_all();
    return RetryResult{};
  }
  Result<EditResult> edit(EditJob) override { return unused(); }
  Result<void> delete_job(DeleteJob) override { return unused(); }
  Result<EnqueuedJob> clone(CloneJob) override { return unused(); }
  Result<RedriveResult> redrive(Redrive) override { return unused(); }
  Result<void> pause_queue(PauseQueue) override { return unused(); }
  Result<void> set_retention(SetRetention) override { return unused(); }
  Result<void> remove_queue(const std::string&) override { return unused(); }
  Result<void> set_queue_limits(SetQueueLimits) override { return unused(); }
  Result<LeaseGrant> acquire_lease(AcquireLease request, Duration wait,
                                   std::stop_token stop) override {
    std::stop_callback wake(stop, [this] { with_lock([] {}); });
    MutexLock lock(mutex_);
    ++acquires;
    changed_.notify_all();
    const Instant end = clock_.now().instant + wait;
    Lease& held = leases_[request.name];
    bool waits = false;
    for (Duration left;
         (left = held.end - lease_now()) > Duration(0) && held.holder != request.holder;) {
      const Instant now = clock_.now().instant;
      if (now >= end || stop.stop_requested()) {
        if (waits) --lease_waiters_;
        return Error{.code = ErrorCode::lease_held,
                     .message = request.name + " is held by " + held.holder};
      }
      if (!std::exchange(waits, true))
        most_lease_waiters = std::max(most_lease_waiters, ++lease_waiters_);
      changed_.wait_for(mutex_, std::min(end - now, left));
    }
    if (waits) --lease_waiters_;
    held.holder = request.holder;
    held.token = ++last_token_;
    held.ttl = request.ttl;
    held.end = lease_now() + request.ttl;
    ++grants;
    changed_.notify_all();
    return LeaseGrant{.token = held.token, .ttl = held.ttl, .value = held.value};
  }
  Result<LeaseGrant> renew_lease(RenewLease request) override {
    if (on_renew_lease) {
      if (std::optional<Error> error = on_renew_lease(request)) return *error;
    }
    MutexLock lock(mutex_);
    ++lease_renews;
    changed_.notify_all();
    Lease& held = leases_[request.name];
    const Instant now = lease_now();
    if (held.token != request.token || now >= held.end) return lost(request.name);
    if (request.value) held.value = *request.value;
    held.end = now + held.ttl;
    return LeaseGrant{.token = held.token, .ttl = held.ttl, .value = held.value};
  }
  Result<void> release_lease(ReleaseLease request) override {
    MutexLock lock(mutex_);
    ++releases;
    Lease& held = leases_[request.name];
    if (held.token != request.token) return lost(request.name);
    held.holder.clear();
    held.end = Instant();
    if (request.value) held.value = *request.value;
    changed_.notify_all();
    return {};
  }
  // Another holder takes the lease.
  void steal_lease(const std::string& name) {
    MutexLock lock(mutex_);
    leases_[name].token = ++last_token_;
    leases_[name].holder = "thief";
    leases_[name].end = Instant::never();
  }
  // The value that its holders set.
  std::string lease_value(const std::string& name) {
    MutexLock lock(mutex_);
    return leases_[name].value;
  }
  std::function<std::optional<Error>(const RenewLease&)> on_renew_lease;
  int acquires = 0, grants = 0, lease_renews = 0, releases = 0;
  int most_lease_waiters = 0;  // calls that waited for a held lease at once
  Result<LeaseInfo> get_lease(const std::string& name) override {
    MutexLock lock(mutex_);
    const Lease& held = leases_[name];
    return LeaseInfo{.name = name, .holder = held.holder, .token = held.token, .value = held.value};
  }
  Result<std::vector<LeaseInfo>> leases(const std::string&, int) override { return unused(); }
  Result<SessionGrant> accept_session(AcceptSession request) override {
    MutexLock lock(mutex_);
    Session& held = sessions_[request.session];
    if (held.token != 0 && held.worker != request.worker)
      return Error{.code = ErrorCode::lease_held, .message = request.session.key + " is held"};
    const bool before = held.token != 0;
    if (!before) held.token = ++last_token_;
    held.worker = request.worker;
    held.lease = request.lease;
    changed_.notify_all();
    return SessionGrant{request.session, held.token, held.lease, held.state, before};
  }
  Result<SessionGrant> renew_session(RenewSession request) override {
    if (on_renew_session) {
      if (std::optional<Error> error = on_renew_session(request)) return *error;
    }
    MutexLock lock(mutex_);
    ++session_renews;
    changed_.notify_all();
    Session& held = sessions_[request.session];
    if (held.token != request.token) return lost(request.session.key);
    return SessionGrant{.session = request.session, .token = held.token, .lease = held.lease};
  }
  Result<void> release_session(ReleaseSession request) override {
    MutexLock lock(mutex_);
    ++session_releases;
    changed_.notify_all();
    Session& held = sessions_[request.session];
    if (held.token != request.token) return lost(request.session.key);
    held.token = 0;
    return {};
  }
  Result<void> put_session_state(PutSessionState request) override {
    MutexLock lock(mutex_);
    Session& held = sessions_[request.session];
    if (held.token != request.token) return lost(request.session.key);
    held.state = request.state;
    return {};
  }
  Result<void> resume_session(ResumeSession) override { return unused(); }
  Result<SessionInfo> get_session(const SessionKey& session) override {
    MutexLock lock(mutex_);
    const Session& held = sessions_[session];
    return SessionInfo{
        .session = session, .worker = held.worker, .token = held.token, .state = held.state};
  }
  Result<SessionPage> sessions(const std::string&, const std::string&, int) override {
    return unused();
  }
  // Ends the lease of the session in the store.
  void end_session(const SessionKey& session) {
    MutexLock lock(mutex_);
    sessions_[session].token = 0;
  }
  // The session that the next claim of an accept line gets, if it finds a job.
  std::optional<SessionKey> next_session;
  std::function<std::optional<Error>(const RenewSession&)> on_renew_session;
  int session_renews = 0, session_releases = 0;

  Result<PutScheduleResult> put_schedule(Schedule, std::optional<bool>, RunCount) override {
    return unused();
  }
  Result<void> remove_schedule(const std::string&) override { return unused(); }
  Result<void> pause_schedule(PauseSchedule) override { return unused(); }
  Result<void> set_timer(SetTimer) override { return unused(); }
  // A continuous timer with jobs of `kind`; a wake creates one, unless two are live or it is
  // paused.
  void set_timer(const std::string& name, std::string kind, Continuous rule) {
    MutexLock lock(mutex_);
    ScheduleInfo& info = schedules_[name];
    info.schedule.name = name;
    info.schedule.job.kind = std::move(kind);
    info.schedule.continuous = rule;
  }
  void change_timer(const std::string& name, const std::function<void(ScheduleInfo&)>& change) {
    MutexLock lock(mutex_);
    change(schedules_[name]);
  }
  std::function<std::optional<Error>()> on_get_schedule;
  int schedule_reads = 0;
  std::vector<JobId> woken;          // 0 = skipped
  std::map<JobId, JobState> states;  // that get() returns instead of running
  std::vector<JobId> retried;
  Result<FireResult> trigger_schedule(const std::string& name, TickSource,
                                      std::optional<Overlap>) override {
    JobId id = 0;
    {
      MutexLock lock(mutex_);
      ScheduleInfo& info = schedules_[name];
      if (!info.paused && info.live.size() < 2) {
        id = ++last_id_;
        ClaimedJob job{.id = id, .token = ++last_token_, .queue = "q"};
        job.kind = info.schedule.job.kind;
        job.priority = info.schedule.job.priority;
        job.lease = lease;
        job.headers = "{\"mainspring-schedule\":\"" + name + "\"}";
        info.live.push_back(id);
        waiting_.push_back(std::move(job));
      }
      woken.push_back(id);
      changed_.notify_all();
    }
    return FireResult{.fired = id != 0, .skipped = id == 0, .jobs = {id}};
  }
  Result<BackfillResult> backfill_schedule(Backfill) override { return unused(); }
  Result<ScheduleInfo> get_schedule(const std::string& name) override {
    if (on_get_schedule) {
      if (std::optional<Error> error = on_get_schedule()) return *error;
    }
    MutexLock lock(mutex_);
    ++schedule_reads;
    changed_.notify_all();
    const auto it = schedules_.find(name);
    if (it == schedules_.end()) return Error{.code = ErrorCode::not_found, .message = name};
    return it->second;
  }
  Result<std::vector<ScheduleInfo>> schedules(const std::string&, int) override { return unused(); }
  Result<LedgerPage> ledger(const std::string&, int, std::int64_t) override { return unused(); }
  Result<std::vector<PreviewTick>> preview_schedule(const std::string&, std::optional<WallTime>,
                                                    int) override {
    return unused();
  }
  Result<Upcoming> upcoming(Duration, int) override { return unused(); }
  Result<ScheduleChanges> pause_schedules(PauseSchedules) override { return unused(); }
  Result<Job> get(JobId id) override {
    MutexLock lock(mutex_);
    Job job{.id = id};
    const auto state = states.find(id);
    job.state = outcomes.contains(id)   ? JobState::completed
                : state != states.end() ? state->second
                                        : JobState::running;
    return job;
  }
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) override {
    MutexLock lock(mutex_);
    ++memo_reads;
    if (on_memos) {
      if (std::optional<Error> error = on_memos()) return *error;
    }
    MemoPage page;
    const auto& of_job = kept[id];
    for (auto it = of_job.lower_bound(from); it != of_job.end(); ++it) {
      if (std::ssize(page.memos) == limit) break;
      page.memos.push_back({it->first, it->second});
    }
    return page;
  }
  Result<Job> wait(JobId, Duration, std::stop_token) override { return unused(); }
  Result<JobPage> list(const JobFilter&, int, JobId) override { return unused(); }
  Result<std::vector<QueueStats>> queues() override { return unused(); }
  Result<std::vector<WorkerInfo>> workers() override { return unused(); }
  Result<WorkerInfo> command_worker(CommandWorker) override { return unused(); }

 private:
  static Error unknown_field(std::string name) {
    return {
        .code = ErrorCode::invalid_argument, .message = name + ": unknown field", .field = name};
  }
  struct Lease {
    std::string holder;
    Token token = 0;
    Duration ttl{0};
    Instant end;  // free from then on
    std::string value;
  };
  struct Session {
    std::string worker;
    Token token = 0;  // 0 = no holder
    Duration lease{0};
    std::string state;
  };
  static Error lost(const std::string& name) {
    return Error{.code = ErrorCode::lease_lost, .message = name + " is lost"};
  }
  static Error unused() { return Error{.message = "the fake does not do this"}; }
  static bool wanted(const Claim& claim, const ClaimedJob& job) {
    return claim.kinds.empty() ||
           std::find(claim.kinds.begin(), claim.kinds.end(), job.kind) != claim.kinds.end();
  }
  Instant lease_now() const { return (time != nullptr ? *time : clock_).now().instant; }
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
  WorkerCommand command_ = WorkerCommand::none;
  std::map<std::string, Lease> leases_;
  int lease_waiters_ = 0;
  std::map<SessionKey, Session> sessions_;
  std::map<std::string, ScheduleInfo> schedules_;
  JobId last_id_ = 0;
  Token last_token_ = 100;
};

}  // namespace mainspring
