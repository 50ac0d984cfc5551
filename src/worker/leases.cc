// Leases: the renewer renews them; the watcher stops handlers when their lease or time limit ends.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/mutant.h"
#include "worker/state.h"

namespace mainspring {
namespace {

// How long before the server may give the job away the handler is asked to stop.
Duration margin(Duration lease) {
  return std::min(lease / 6, Duration(std::chrono::seconds(5)));
}
// The shortest time between two renewals of a job.
constexpr Duration kLeastRenewal = std::chrono::seconds(1);
// Pause after a renewal without an answer.
constexpr Duration kRenewPause = std::chrono::milliseconds(500);
// How long an attempt whose handler has returned waits to send its messages.
constexpr Duration kWaitForRoom = std::chrono::seconds(10);
// How long a completed attempt waits until its warning is stored.
constexpr Duration kWaitForWarning = std::chrono::seconds(2);
constexpr std::size_t kWarningFrameBytes = 80;  // around the text of a warning
// The longest sleep of the watcher, so that a suspend of the machine is noticed soon after it: the
// clock counts suspended time, waits do not.
constexpr Duration kLongestLeaseLook = std::chrono::seconds(1);
// If the watcher's last check is older than this, the process stood still.
constexpr Duration kStandstillLook = std::chrono::seconds(3);
// How long it then waits for the answer whether a lease is still held.
constexpr Duration kAskFirst = std::chrono::seconds(5);

Error too_many_memos(JobId id) {
  return Error{
      .code = ErrorCode::too_large,
      .message = fmt::format("job {} has results of {} steps: it can keep no more", id, kMaxMemos),
      .field = "step"};
}

std::size_t bytes_of(const Attempt& attempt) {
  return 64 + (attempt.checkpoint ? attempt.checkpoint->size() : 0) +
         (attempt.progress ? attempt.progress->text.size() : 0) +
         (attempt.warning ? attempt.warning->text.size() : 0);
}

}  // namespace

void WorkerRuntime::State::set_lease(Attempt& attempt, Instant from, Duration lease) {
  // Near a job's time limit the server grants shorter leases; before a restart, longer ones.
  attempt.renew_at = from + std::max(std::min(lease, options.lease) / 3,
                                     std::min(options.lease / 12, kLeastRenewal));
  attempt.lease_end = from + (lease - margin(lease));
  wake_by(attempt);
}

// Deadlines of new attempts are usually later than the wake-up times of the renewer and the
// watcher. These are woken only for earlier deadlines, and check all attempts when they wake.
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

void WorkerRuntime::State::ignore(Attempt& attempt, RemarkFault fault, std::string_view text) {
  bool first = false;
  {
    MutexLock lock(mutex);
    std::int64_t& count = attempt.ignored.at(static_cast<std::size_t>(fault));
    first = ++count == 1;
    if (!attempt.warning) attempt.warning.emplace();
    ++attempt.warning->counts.at(static_cast<std::size_t>(fault));
    if (attempt.warned.empty())
      attempt.warned = fmt::format("attempt {}: ignored: {}", attempt.job.attempt,
                                   cut_text(text, kMaxWarningBytes - kWarningFrameBytes));
    const std::int64_t all =
        std::accumulate(attempt.ignored.begin(), attempt.ignored.end(), std::int64_t{0});
    attempt.warning->text =
        all == 1 ? attempt.warned : fmt::format("{} (and {} more)", attempt.warned, all - 1);
    report(attempt);
  }
  if (!first) return;
  log.warn("ignored invalid output of a program about its job",
           {{"job", fmt::to_string(attempt.job.id)},
            {"kind", attempt.job.kind},
            {"reason", std::string(to_string(fault))},
            {"what", std::string(cut_text(text, kMaxWarningBytes))}});
}

// The server has these counts; further remarks may have been added meanwhile.
void WorkerRuntime::State::forget_warning(Attempt& attempt,
                                          const std::optional<IgnoredRemarks>& sent) {
  if (!sent || !attempt.warning) return;
  bool more = false;
  for (std::size_t i = 0; i < kRemarkFaults; ++i) {
    attempt.warning->counts[i] -= sent->counts[i];
    more = more || attempt.warning->counts[i] > 0;
  }
  if (!more) attempt.warning.reset();
}

Result<void> WorkerRuntime::State::flush(Attempt& attempt) {
  MutexLock lock(mutex);
  const std::uint64_t goal = attempt.said;
  ++flushing;
  const auto waits = [&] { return attempt.stored < goal && !attempt.lost; };
  if (waits()) renewer_cv.notify_one();
  // There may never be room for its messages, so stop waiting when stop is requested.
  while (waits() && (!no_room || attempt.reason.load() == StopReason::none)) stored_cv.wait(mutex);
  --flushing;
  if (waits()) {
    return Error{
        .code = ErrorCode::overloaded,
        .message = fmt::format("job {}: the server has no room for its messages", attempt.job.id)};
  }
  if (attempt.stored < goal) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {}: its lease is lost", attempt.job.id)};
  }
  if (attempt.not_sent) return *attempt.not_sent;
  if (attempt.refused) return *attempt.refused;
  return {};
}

Result<void> WorkerRuntime::State::say(Attempt& attempt, std::string json) {
  MutexLock lock(mutex);
  const auto full = [&] { return attempt.messages.size() >= Context::kMaxUnsentMessages; };
  const auto hopeless = [&] {
    return attempt.lost || attempt.not_sent || attempt.reason.load() != StopReason::none;
  };
  ++flushing;
  if (full() && !hopeless()) renewer_cv.notify_one();
  while (full() && !hopeless()) stored_cv.wait(mutex);
  --flushing;
  if (attempt.not_sent) return *attempt.not_sent;
  if (attempt.lost || full()) {
    const char* why =
        attempt.lost ? "its lease is lost" : "the job must stop, and too many messages are unsent";
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {}: {}", attempt.job.id, why)};
  }
  report(attempt);
  attempt.messages.push_back({attempt.said, std::move(json)});
  return {};
}

// Waits until all reports of an ended handler are stored: they must be stored before its outcome,
// and the next attempt needs the checkpoint before it can start.
void WorkerRuntime::State::flush_last(Attempt& attempt, bool complete) {
  MutexLock lock(mutex);
  const Instant warned_by = clock.now().instant + kWaitForWarning;
  const auto waits_on = [&] {
    const bool said = !complete || !attempt.messages.empty();
    return said && attempt.pending() && !attempt.lost;
  };
  const auto waits = [&] {
    const bool warns = attempt.warning && !attempt.lost && clock.now().instant < warned_by;
    return waits_on() || warns;
  };
  if (!waits() || (complete && MS_MUTANT(worker_finishes_before_it_has_sent))) return;
  ++flushing;
  renewer_cv.notify_one();
  const Instant until = clock.now().instant + kWaitForRoom;
  while (waits() && (!no_room || clock.now().instant < until)) {
    const bool bounded = no_room || !waits_on();
    bounded ? stored_cv.wait_for(mutex, (no_room ? until : warned_by) - clock.now().instant)
            : stored_cv.wait(mutex);
  }
  --flushing;
  if (!waits_on()) return;
  attempt.not_sent =
      Error{.code = ErrorCode::overloaded, .message = "the server has no room for new jobs"};
}

// Takes the messages that fit. Returns the value of `said` that the renewal then covers.
std::uint64_t WorkerRuntime::State::take_messages(const Attempt& attempt, Renewal& renewal,
                                                  std::size_t& bytes) {
  renewal.first_seq = attempt.next_seq;
  for (const Attempt::Message& message : attempt.messages) {
    const bool fits = renewal.messages.size() < kMaxMessages &&
                      bytes + message.json.size() <= kMaxCallBytes && !hold_messages;
    if (!fits) return message.said - 1;
    bytes += message.json.size();
    renewal.messages.push_back(message.json);
  }
  return attempt.said;
}

void WorkerRuntime::State::drop_messages(Attempt& attempt) {
  while (!attempt.messages.empty() && attempt.messages.front().said <= attempt.stored) {
    attempt.messages.pop_front();
    ++attempt.next_seq;
  }
}

Instant WorkerRuntime::State::renew_due() const {
  Instant due = Instant::never();
  for (const auto& [id, attempt] : active) due = std::min(due, attempt->renew_at);
  return due;
}

void WorkerRuntime::State::renew_soon() {
  const Instant now = clock.now().instant;
  for (const auto& [id, attempt] : active) attempt->renew_at = std::min(attempt->renew_at, now);
  if (!active.empty()) renewer_cv.notify_one();
}

Renew WorkerRuntime::State::gather_renew(bool all, std::vector<Sent>& sent) {
  Renew renew{.worker = incarnation, .lease = options.lease};
  std::size_t bytes = 0;
  for (const auto& [id, attempt] : active) {
    const bool pending = attempt->pending() || !attempt->memos.empty();
    if (!all && !pending) continue;
    if (renew.leases.size() >= kMaxRenewLeases) break;
    Renewal renewal{.id = id, .token = attempt->job.token};
    std::uint64_t said = attempt->stored;
    std::size_t memos = 0;
    // Reports that do not fit are sent with the next call; the lease itself is always renewed.
    if (pending && (bytes == 0 || bytes + bytes_of(*attempt) <= kMaxCallBytes)) {
      bytes += bytes_of(*attempt);
      renewal.progress = attempt->progress;
      renewal.warning = attempt->warning;
      if (!MS_MUTANT(worker_keeps_checkpoint)) renewal.checkpoint = attempt->checkpoint;
      if (!hold_messages) memos = take_memos(*attempt, renewal, bytes);
      said = take_messages(*attempt, renewal, bytes);
    } else if (!all) {
      continue;
    }
    sent.push_back({attempt, said, memos, renewal.warning});
    renew.leases.push_back(std::move(renewal));
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
    drop_messages(*one.attempt);
    forget_warning(*one.attempt, one.warning);
    const auto& full = result.memos_full;
    const bool kept = std::find(full.begin(), full.end(), renewal.id) == full.end();
    answer_memos(*one.attempt, one.memos, kept ? Result<void>() : too_many_memos(renewal.id));
    if (!one.attempt->pending()) {
      one.attempt->progress.reset();
      one.attempt->checkpoint.reset();
    }
  }
  for (const RefusedPart& part : result.refused) {
    const auto it = by_id.find(part.id);
    if (it != by_id.end()) it->second->attempt->refused = part.error;
  }
  for (JobId id : result.lost) {
    if (MS_MUTANT(worker_ignores_lost_lease)) break;
    if (const auto it = by_id.find(id); it != by_id.end()) lose(it->second->attempt, true);
  }
  if (!MS_MUTANT(worker_ignores_cancel)) cancel_wanted(result.cancel);
  obey(result.command);
  stored_cv.notify_all();
}

void WorkerRuntime::State::renew_failed(const Error& error, const std::vector<Sent>& sent) {
  const bool refused = info(error.code).retryable == Retryable::no;
  if (!std::exchange(renewing_fails, true)) {
    log.warn("cannot renew leases; retrying until they expire",
             {{"error", std::string(error.name())}, {"message", error.message}});
  }
  const bool full = error.code == ErrorCode::overloaded || error.code == ErrorCode::storage_full ||
                    error.code == ErrorCode::unavailable;
  for (const Sent& one : sent) {
    if (full && (!one.attempt->messages.empty() || one.memos > 0)) hold_messages = true;
    if (MS_MUTANT(worker_forgets_unanswered_messages)) one.attempt->messages.clear();
  }
  if (!refused) return;
  // The server permanently refuses these reports; the leases must still be renewed.
  for (const Sent& one : sent) {
    answer_memos(*one.attempt, one.memos, error);
    forget_warning(*one.attempt, one.warning);
    if (one.attempt->stored == one.said) continue;
    one.attempt->refused = error;
    one.attempt->stored = one.said;
    const std::size_t unsent = one.attempt->messages.size();
    drop_messages(*one.attempt);
    if (one.attempt->messages.size() != unsent) one.attempt->not_sent = error;
    one.attempt->progress.reset();
    one.attempt->checkpoint.reset();
  }
  stored_cv.notify_all();
}

void WorkerRuntime::State::run_renewer() {
  mutex.lock();
  Instant retry_at;  // no retry before this, after a failure
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
      if (std::exchange(renewing_fails, false)) log.info("renewing leases again");
      no_room = std::exchange(hold_messages, false);
      if (no_room) retry_at = now + kRenewPause;  // then with messages again
      renewed(*result, sent, now);
    } else {
      renew_failed(result.error(), sent);
      retry_at = clock.now().instant + std::min(kRenewPause, options.lease / 12);
    }
    // Reports that were added meanwhile, did not fit, or failed.
    for (const auto& [id, attempt] : active) {
      const bool more = result && attempt->messages.size() >= kMaxMessages;
      const Duration pause = more ? Duration(0) : Context::kReportInterval;
      if (attempt->pending() || !attempt->memos.empty())
        report_at = std::min(report_at, now + pause);
    }
  }
  mutex.unlock();
}

void WorkerRuntime::State::tell(const AttemptPtr& attempt, StopReason reason) {
  StopReason none = StopReason::none;
  if (!attempt->reason.compare_exchange_strong(none, reason)) return;
  to_tell.push_back(attempt);
  if (reason == StopReason::timeout || reason == StopReason::lease_lost) {
    attempt->stuck_at = clock.now().instant + kStuckAfter;
    overdue.push_back(attempt);
  }
  watcher_cv.notify_one();
  stored_cv.notify_all();  // nothing waits for room any more
}

void WorkerRuntime::State::lose(const AttemptPtr& attempt, bool confirmed) {
  if (confirmed) attempt->confirmed = true;
  if (attempt->lost) return;
  attempt->lost = true;
  if (const auto it = active.find(attempt->job.id); it != active.end() && it->second == attempt) {
    active.erase(it);
  }
  stored_cv.notify_all();
  if (!attempt->started) return wake_slot();  // the slot that takes it drops it
  ++stats.lease_lost;
  log.warn("lease lost", {{"job", fmt::to_string(attempt->job.id)},
                          {"kind", attempt->job.kind},
                          {"why", confirmed ? "the server gave the job to another worker"
                                            : "no answer in time"}});
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
    // Not started: no handler to stop.
    active.erase(it);
    attempt->lost = true;
    done.push_back({id, attempt->job.token, CancelJob{}});
    if (finisher_waits) finisher_cv.notify_one();
  }
}

// The watcher checks once a second; after a longer gap this process stood still. A store in this
// process stood still too, so the worker asks it before it treats a lease as ended.
void WorkerRuntime::State::look_after_standstill(Instant now) {
  const Instant before = std::exchange(looked_at, active.empty() ? Instant::never() : now);
  if (before == Instant::never() || now - before <= kStandstillLook) return;
  if (jobs.leases_end() == LeasesEnd::elsewhere) return;
  for (const auto& [id, attempt] : active) {
    attempt->lease_end = std::max(attempt->lease_end, now + kAskFirst);
    attempt->renew_at = now;
  }
  renewer_cv.notify_one();
}

// Stops handlers that are over a limit, and computes the time of the next check.
void WorkerRuntime::State::look(Instant now) {
  look_after_standstill(now);
  const bool by_clock = jobs.leases_end() != LeasesEnd::here;
  std::vector<AttemptPtr> over;
  watcher_wake = std::min(stopping ? std::max(tell_at, now + kLongestLeaseLook) : Instant::never(),
                          active.empty() ? Instant::never() : now + kLongestLeaseLook);
  for (const auto& [id, attempt] : active) {
    if (by_clock && attempt->lease_end <= now && !MS_MUTANT(worker_outlives_its_lease)) {
      over.push_back(attempt);
      continue;
    }
    if (attempt->started && attempt->time_limit <= now) tell(attempt, StopReason::timeout);
    const bool stops = tell_at <= now || (stopping && attempt->kind->options.until_stopped);
    if (attempt->started && stops) tell(attempt, StopReason::shutdown);
    if (by_clock) watcher_wake = std::min(watcher_wake, attempt->lease_end);
    if (attempt->reason.load() == StopReason::none) {
      watcher_wake = std::min({watcher_wake, attempt->time_limit, tell_at});
    }
  }
  for (const AttemptPtr& attempt : over) lose(attempt, false);
  look_for_stuck(now);
}

void WorkerRuntime::State::run_watcher() {
  mutex.lock();
  while (!leases_end) {
    const Instant now = clock.now().instant;
    look(now);
    if (to_tell.empty() && !claim_ends && !stop_wanted) {
      watcher_cv.wait_for(mutex, watcher_wake == Instant::never() ? kForever : watcher_wake - now);
      continue;
    }
    std::vector<AttemptPtr> telling = std::move(to_tell);
    to_tell.clear();
    const bool ends_claim = std::exchange(claim_ends, false);
    const bool stops = std::exchange(stop_wanted, false);
    std::stop_source claim = claim_stop;
    mutex.unlock();
    if (ends_claim) claim.request_stop();
    for (const AttemptPtr& attempt : telling) attempt->stop.request_stop();
    if (stops) stop_on_command();
    mutex.lock();
  }
  mutex.unlock();
}

}  // namespace mainspring
