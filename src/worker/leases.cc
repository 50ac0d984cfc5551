// Leases: the renewer keeps them, the watcher tells handlers when they end or time is up.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "worker/state.h"

namespace mainspring {
namespace {

// The handler hears so long before the server may give the job away.
Duration margin(Duration lease) {
  return std::min(lease / 6, Duration(std::chrono::seconds(5)));
}
// Between two renewals of a job, at the least.
constexpr Duration kLeastRenewal = std::chrono::seconds(1);
// After a renewal that got no answer.
constexpr Duration kRenewPause = std::chrono::milliseconds(500);
// At the longest, so that sleep of the whole machine is noticed soon after it: waits do not count
// it, the clock does.
constexpr Duration kLongestLook = std::chrono::seconds(1);

std::size_t bytes_of(const Attempt& attempt) {
  return 64 + (attempt.checkpoint ? attempt.checkpoint->size() : 0) +
         (attempt.progress ? attempt.progress->text.size() : 0);
}

}  // namespace

void WorkerRuntime::State::set_lease(Attempt& attempt, Instant from, Duration lease) {
  // Near a job's time limit the server grants less and less.
  attempt.renew_at = from + std::max(lease / 3, std::min(options.lease / 12, kLeastRenewal));
  attempt.lease_end = from + (lease - margin(lease));
  wake_by(attempt);
}

// Deadlines of new attempts are mostly later than what renewer and watcher sleep for: they are
// woken only if not, and look at all attempts when they wake.
void WorkerRuntime::State::wake_by(Attempt& attempt) {
  if (attempt.renew_at < renewer_wake) {
    renewer_wake = attempt.renew_at;
    renewer_cv.notify_one();
  }
  const Instant look_at = std::min(attempt.lease_end, attempt.time_limit);
  if (look_at < watcher_wake) {
    watcher_wake = look_at;
    watcher_cv.notify_one();
  }
}

void WorkerRuntime::State::report(Attempt& attempt) {
  ++attempt.said;
  attempt.refused.reset();
  const Instant at = reported_at + Context::kReportInterval;
  if (at < report_at) {
    report_at = at;
    renewer_cv.notify_one();
  }
}

Result<void> WorkerRuntime::State::flush(Attempt& attempt) {
  MutexLock lock(mutex);
  const std::uint64_t goal = attempt.said;
  ++flushing;
  if (attempt.stored < goal && !attempt.lost) renewer_cv.notify_one();
  while (attempt.stored < goal && !attempt.lost) stored_cv.wait(mutex);
  --flushing;
  if (attempt.stored < goal) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {}: its lease is lost", attempt.job.id)};
  }
  if (attempt.refused) return *attempt.refused;
  return {};
}

Instant WorkerRuntime::State::renew_due() const {
  Instant due = Instant::never();
  for (const auto& [id, attempt] : active) due = std::min(due, attempt->renew_at);
  return due;
}

Renew WorkerRuntime::State::gather_renew(bool all, std::vector<Sent>& sent) {
  Renew renew{.worker = incarnation, .lease = options.lease};
  std::size_t bytes = 0;
  for (const auto& [id, attempt] : active) {
    const bool pending = attempt->pending();
    if (!all && !pending) continue;
    if (renew.leases.size() >= kMaxRenewLeases) break;
    Renewal renewal{.id = id, .token = attempt->job.token};
    std::uint64_t said = attempt->stored;
    // What does not fit goes with the next call; the lease itself always goes.
    if (pending && (bytes == 0 || bytes + bytes_of(*attempt) <= kMaxCallBytes)) {
      bytes += bytes_of(*attempt);
      renewal.progress = attempt->progress;
      if (!MS_MUTANT(worker_keeps_checkpoint)) renewal.checkpoint = attempt->checkpoint;
      said = attempt->said;
    } else if (!all) {
      continue;
    }
    renew.leases.push_back(std::move(renewal));
    sent.push_back({attempt, said});
  }
  return renew;
}

void WorkerRuntime::State::renewed(const RenewResult& result, const std::vector<Sent>& sent,
                                   Instant sent_at) {
  std::unordered_map<JobId, const Sent*> by_id;
  for (const Sent& one : sent) by_id.emplace(one.attempt->job.id, &one);
  for (const Renewed& renewal : result.renewed) {
    const auto it = by_id.find(renewal.id);
    if (it == by_id.end()) continue;
    const Sent& one = *it->second;
    set_lease(*one.attempt, sent_at, renewal.lease);
    one.attempt->stored = one.said;
    if (!one.attempt->pending()) {
      one.attempt->progress.reset();
      one.attempt->checkpoint.reset();
    }
  }
  for (JobId id : result.lost) {
    if (MS_MUTANT(worker_ignores_lost_lease)) break;
    if (const auto it = by_id.find(id); it != by_id.end()) lose(it->second->attempt, true);
  }
  if (!MS_MUTANT(worker_ignores_cancel)) cancel_wanted(result.cancel);
  stored_cv.notify_all();
}

void WorkerRuntime::State::renew_failed(const Error& error, const std::vector<Sent>& sent) {
  const bool refused = info(error.code).retryable == Retryable::no;
  log.warn("cannot renew leases",
           {{"error", std::string(error.name())}, {"message", error.message}});
  if (!refused) return;
  // The server will never take these reports; the leases must not suffer for it.
  for (const Sent& one : sent) {
    if (one.attempt->stored == one.said) continue;
    one.attempt->refused = error;
    one.attempt->stored = one.said;
    one.attempt->progress.reset();
    one.attempt->checkpoint.reset();
  }
  stored_cv.notify_all();
}

void WorkerRuntime::State::run_renewer() {
  mutex.lock();
  Instant retry_at;  // after a failure: not before
  while (!leases_end) {
    const Instant now = clock.now().instant;
    const Instant due = std::max(renew_due(), retry_at);
    const bool all = due <= now;
    const bool reports = std::max(flushing > 0 ? now : report_at, retry_at) <= now;
    std::vector<Sent> sent;
    Renew renew;
    if (all || reports) renew = gather_renew(all, sent);
    if (sent.empty()) {
      if (reports) report_at = Instant::never();
      const bool flush_later = flushing > 0 && retry_at > now;
      renewer_wake = std::min(due, std::max(flush_later ? now : report_at, retry_at));
      renewer_cv.wait_for(mutex, renewer_wake == Instant::never() ? kForever : renewer_wake - now);
      continue;
    }
    report_at = Instant::never();
    reported_at = now;
    ++stats.renews;
    mutex.unlock();
    const Result<RenewResult> result = jobs.renew(std::move(renew));
    mutex.lock();
    if (result) {
      renewed(*result, sent, now);
    } else {
      renew_failed(result.error(), sent);
      retry_at = clock.now().instant + std::min(kRenewPause, options.lease / 12);
    }
    // What was said meanwhile, did not fit, or failed.
    for (const auto& [id, attempt] : active) {
      if (attempt->pending()) report_at = std::min(report_at, now + Context::kReportInterval);
    }
  }
  mutex.unlock();
}

void WorkerRuntime::State::tell(const AttemptPtr& attempt, StopReason reason) {
  StopReason none = StopReason::none;
  if (!attempt->reason.compare_exchange_strong(none, reason)) return;
  to_tell.push_back(attempt);
  watcher_cv.notify_one();
}

void WorkerRuntime::State::lose(const AttemptPtr& attempt, bool confirmed) {
  if (confirmed) attempt->confirmed = true;
  if (attempt->lost) return;
  attempt->lost = true;
  if (const auto it = active.find(attempt->job.id); it != active.end() && it->second == attempt) {
    active.erase(it);
  }
  stored_cv.notify_all();
  if (!attempt->started) return;  // a slot that takes it will drop it
  ++stats.lease_lost;
  log.warn("lease lost", {{"job", fmt::to_string(attempt->job.id)},
                          {"kind", attempt->job.kind},
                          {"why", confirmed ? "the server gave it away" : "no answer in time"}});
  tell(attempt, StopReason::lease_lost);
}

void WorkerRuntime::State::cancel_wanted(const std::vector<JobId>& ids) {
  for (JobId id : ids) {
    const auto it = active.find(id);
    if (it == active.end()) continue;
    const AttemptPtr attempt = it->second;
    if (attempt->started) {
      tell(attempt, StopReason::cancelled);
      continue;
    }
    // Not begun: nobody needs to be told.
    active.erase(it);
    attempt->lost = true;
    done.push_back({id, attempt->job.token, CancelJob{}});
    if (finisher_waits) finisher_cv.notify_one();
  }
}

// Tells whoever is over a limit, and reckons when to look again.
void WorkerRuntime::State::look(Instant now) {
  std::vector<AttemptPtr> over;
  watcher_wake = std::min(stopping ? std::max(tell_at, now + kLongestLook) : Instant::never(),
                          active.empty() ? Instant::never() : now + kLongestLook);
  for (const auto& [id, attempt] : active) {
    if (attempt->lease_end <= now && !MS_MUTANT(worker_outlives_its_lease)) {
      over.push_back(attempt);
      continue;
    }
    if (attempt->started && attempt->time_limit <= now) tell(attempt, StopReason::timeout);
    const bool told = tell_at <= now || (stopping && attempt->kind->options.until_told);
    if (attempt->started && told) tell(attempt, StopReason::shutdown);
    watcher_wake = std::min(watcher_wake, attempt->lease_end);
    if (attempt->reason.load() == StopReason::none) {
      watcher_wake = std::min({watcher_wake, attempt->time_limit, tell_at});
    }
  }
  for (const AttemptPtr& attempt : over) lose(attempt, false);
}

void WorkerRuntime::State::run_watcher() {
  mutex.lock();
  while (!leases_end) {
    const Instant now = clock.now().instant;
    look(now);
    if (to_tell.empty()) {
      watcher_cv.wait_for(mutex, watcher_wake == Instant::never() ? kForever : watcher_wake - now);
      continue;
    }
    std::vector<AttemptPtr> telling = std::move(to_tell);
    to_tell.clear();
    mutex.unlock();
    for (const AttemptPtr& attempt : telling) attempt->stop.request_stop();
    mutex.lock();
  }
  mutex.unlock();
}

}  // namespace mainspring
