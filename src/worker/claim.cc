// The claimer: claims jobs for the free slots and passes them on.

#include <algorithm>

#include "base/mutant.h"
#include "worker/state.h"

namespace mainspring {

// Jobs to claim beyond the idle slots: none, unless handlers are so short that the slots would be
// idle during the round trip to the server.
int WorkerRuntime::State::claim_ahead() const {
  if (handler_us < 0 || handler_us >= static_cast<double>(kClaimAhead.count())) return 0;
  if (stuck_slots >= slot_limit) return 0;
  const double per_slot = static_cast<double>(kClaimAhead.count()) / std::max(handler_us, 0.5);
  return static_cast<int>(std::min<double>(slot_limit * per_slot, kMaxClaimJobs));
}

Claim WorkerRuntime::State::next_claim() {
  const int taken = slots_taken + slots_ready;
  Claim claim{.worker = incarnation, .queues = options.queues, .lease = options.lease};
  claim.facts = facts;
  claim.max = std::clamp(slot_limit + claim_ahead() - taken, 0, kMaxClaimJobs);
  claim_leaves_out = false;
  if (start_failures > 0) claim.max = std::min(claim.max, 1);  // a try
  const Attempt* const waits = waits_for_slots();
  if (waits != nullptr && waits->slots > 1) claim.max = 0;  // no more until that job has started
  if (claim.max == 0) return claim;
  // A claim may return jobs of one kind only, so it requests no more than the least room among its
  // kinds. Full kinds are left out.
  const auto room = [&](const Kind& kind) {
    const int limit = kind.options.concurrency;
    return limit > 0 ? limit - kind.taken : claim.max;
  };
  if (!any) {
    int most = claim.max;
    for (const auto& [name, kind] : kinds) {
      if (kinds_limited && room(kind) <= 0) {
        claim_leaves_out = true;
        continue;
      }
      most = std::min(most, room(kind));
      claim.kinds.push_back(name);
    }
    claim.max = claim.kinds.empty() ? 0 : most;
  } else if (any->options.concurrency > 0) {
    claim.max = std::clamp(room(*any), 0, claim.max);
  }
  return claim;
}

void WorkerRuntime::State::leave(Kind& kind) {
  --kind.taken;
  const bool has_room_again = kind.taken == kind.options.concurrency - 1;
  if (!claim_leaves_out || !has_room_again || MS_MUTANT(full_kind_not_claimed_again)) return;
  claim_leaves_out = false;
  claim_ends = true;
  watcher_cv.notify_one();
}

void WorkerRuntime::State::admit(ClaimedJob&& job, Instant now) {
  ++stats.claimed;
  auto attempt = std::make_shared<Attempt>();
  attempt->job = std::move(job);
  attempt->slots = MS_MUTANT(worker_ignores_cost) ? 1 : std::min(attempt->job.cost, options.slots);
  const JobId id = attempt->job.id;
  const auto found = kinds.find(attempt->job.kind);
  attempt->kind = found != kinds.end() ? &found->second : any ? &*any : nullptr;
  // The same job again: an attempt that still runs here has lost it, else we would not get it.
  if (const auto old = active.find(id); old != active.end()) lose(AttemptPtr(old->second), true);
  // A lease that is shorter than requested started before the answer.
  const Duration lease = attempt->job.lease > Duration(0) ? attempt->job.lease : options.lease;
  const Duration whole = std::max(lease, options.lease);
  set_lease(*attempt, now - (whole - lease), whole);
  if (attempt->kind == nullptr || stopping || attempt->lease_end <= now || now < start_again_at) {
    done.push_back({id, attempt->job.token, given_back(attempt->job)});
    if (finisher_waits) finisher_cv.notify_one();
    return;
  }
  ++attempt->kind->taken;
  active.emplace(id, attempt);
  slots_ready += attempt->slots;
  ready.push_back(std::move(attempt));
}

void WorkerRuntime::State::accept(ClaimResult&& result, Instant now) {
  for (ClaimedJob& job : result.jobs) admit(std::move(job), now);
  cancel_wanted(result.cancel);
  if (result.command != WorkerCommand::none) obey(result.command);  // only renewals resume
  wake_slot();
}

void WorkerRuntime::State::pause_claims(const Error& error, Pauses& pauses) {
  if (!server_away) {
    server_away = true;
    log.warn("cannot claim; retrying with back-off",
             {{"error", std::string(error.name())}, {"message", error.message}});
    renew_soon();
  }
  const Instant until = clock.now().instant + pauses.next(error);
  for (Instant now; !stopping && (now = clock.now().instant) < until;) {
    claimer_cv.wait_for(mutex, until - now);
  }
}

void WorkerRuntime::State::tell_refused(const Error& error) {
  const bool for_good =
      error.code == ErrorCode::unauthenticated || error.code == ErrorCode::forbidden;
  if (!for_good) return;
  std::function<void(const Error&)> tell;
  {
    MutexLock lock(mutex);
    tell = std::exchange(when_refused, nullptr);
  }
  if (tell) tell(error);
}

void WorkerRuntime::State::run_claimer() {
  Pauses pauses(random);
  mutex.lock();
  while (!stopping) {
    if (quiet) {
      stay_quiet();
      continue;
    }
    if (clock.now().instant < start_again_at) {
      wait_to_start();
      continue;
    }
    Claim claim = next_claim();
    if (claim.max == 0) {
      await_room();
      continue;
    }
    ++stats.claims;
    if (claim_stop.stop_requested()) claim_stop = std::stop_source();
    const std::stop_token ended = claim_stop.get_token();
    claiming = true;
    mutex.unlock();
    const Instant before = clock.now().instant;
    Result<ClaimResult> result = claim_call
                                     ? claim_call(std::move(claim), options.claim_wait, ended)
                                     : jobs.claim(std::move(claim), options.claim_wait, ended);
    const Instant after = clock.now().instant;
    if (!result) tell_refused(result.error());
    const bool again = !result && leaves_trouble_out(result.error());
    mutex.lock();
    claiming = false;
    claimed_cv.notify_all();
    if (again) continue;
    if (!result) {
      if (!stopping && !ended.stop_requested()) pause_claims(result.error(), pauses);
      continue;
    }
    if (server_away) log.info("claiming again");
    server_away = false;
    const bool nothing = result->jobs.empty() && result->cancel.empty() &&
                         result->command == WorkerCommand::none && !ended.stop_requested();
    accept(std::move(*result), after);
    if (nothing && !stopping && after - before < options.claim_wait / 10) {
      // Avoid a busy loop with a server that does not let claims wait.
      const Instant until = after + pauses.next(Error{});
      for (Instant now; !stopping && (now = clock.now().instant) < until;) {
        claimer_cv.wait_for(mutex, until - now);
      }
    } else {
      pauses.reset();
    }
  }
  mutex.unlock();
}

void WorkerRuntime::State::set_slots(int most) {
  MutexLock lock(mutex);
  if (MS_MUTANT(worker_ignores_slot_limit)) return;
  const int before = std::exchange(slot_limit, std::clamp(most, 1, options.slots));
  if (slot_limit > before) {
    wake_slot();
    claimer_cv.notify_all();
  } else if (slot_limit < before) {
    claim_ends = true;  // it asks for more jobs than may run now
    watcher_cv.notify_one();
  }
}

void WorkerRuntime::State::give_back_ready() {
  for (const AttemptPtr& attempt : ready) {
    leave(*attempt->kind);
    if (attempt->lost) continue;
    active.erase(attempt->job.id);
    done.push_back({attempt->job.id, attempt->job.token, given_back(attempt->job)});
  }
  ready.clear();
  slots_ready = 0;
}

}  // namespace mainspring
