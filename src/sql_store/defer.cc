// Deferred jobs, and claims that name their job.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

// Considers only results that would be accepted; runs before anything of the request is applied.
std::optional<Error> SqlStore::cannot_defer_all(const Finish& op) {
  for (const JobOutcome& job : op.results) {
    const auto found = leases_.find(job.id);
    if (!std::holds_alternative<Defer>(job.outcome) || found == leases_.end()) continue;
    const Lease& lease = found->second;
    if (lease.session == 0 || lease.token != job.token || !op.within.has(lease.queue->name))
      continue;
    return cannot_defer(job.id, session_key_of_job(job.id));
  }
  return std::nullopt;
}

void SqlStore::defer_attempt(JobId id, Lease& lease, const Defer& defer) {
  if (lease.cancel_requested) return end_cancelled(id, lease, lease.cancel_reason);
  if (!defer.reason.empty()) set_reason(id, lease.flags, defer.reason, "");
  lease.flags |= kFlagDeferred;
  const JobState state =
      MS_MUTANT(deferred_stays_in_line) ? JobState::available : JobState::waiting;
  end_attempt(id, lease, state, lease.run_at,
              lease.attempt - (MS_MUTANT(defer_burns_attempt) ? 0 : 1));
}

// The job continues or ends: the caller writes the row.
void SqlStore::undefer(HotRow& hot) {
  if ((hot.flags & kFlagDeferred) == 0) return;
  hot.flags &= ~kFlagDeferred;
  set_reason(hot.id, hot.flags, "", "");
}

RoomForNamed SqlStore::room_for(const HotRow& hot) {
  QueueState& queue = *hot.queue;
  const int cost = cost_of(queue, hot.kind);
  RoomForNamed out{.paused = queue.paused,
                   .queue = queue.paused || room(queue).fits(cost) ? 1 : 0,
                   .quarantine = queue.released == 0 ? 1 : 0,
                   .cost = cost};
  if ((hot.flags & kFlagLimitKey) == 0 || !queue.limits.per_key.any()) return out;
  const auto key = queue.limit_keys.find(limit_key_of(hot.id));
  if (key == queue.limit_keys.end()) return out;
  note_key_rate(*key->second);  // without available jobs the key was not opened
  const LimitKey& of = *key->second;
  if (of.is_full() ||
      !room_of_key(queue.limits.per_key, of.slots_taken(), of.meter, now_.wall).fits(cost))
    out.limit_key = 0;
  return out;
}

OperationResult SqlStore::claim_named(const Claim& op) {
  const auto lease = leases_.find(op.job);
  const bool runs = lease != leases_.end();
  auto hot = runs ? std::nullopt : load_hot(op.job);
  if (!hot && !runs) return missing(op.job);
  const QueueState& queue = runs ? *lease->second.queue : *hot->queue;
  if (std::find(op.queues.begin(), op.queues.end(), queue.name) == op.queues.end())
    return no_job(op.job);
  NamedJob named{.id = op.job, .state = JobState::running, .queue = queue.name};
  if (runs) {
    named.worker = lease->second.grant->worker;
    return check_named(named, now_.wall).error();
  }
  named.state = hot->state;
  named.deferred = (hot->flags & kFlagDeferred) != 0;
  named.quarantined = waits_in_quarantine(hot->state, hot->flags);
  std::string session;
  if ((hot->flags & kFlagSession) != 0 && !is_terminal(hot->state))
    named.session = session = session_key_of_job(hot->id);
  if (hot->expires_at && !hot->started_at) named.expires_at = WallTime::from_us(*hot->expires_at);
  if (auto may = check_named(named, now_.wall); !may) return may.error();
  step_breaker_of(queue.name);
  if (auto may = check_room(named, room_for(*hot)); !may) return may.error();
  return give_named(op, *hot);
}

// Enters the job into the ready queue for a moment: only a job whose row says available can get a
// grant, which makes it running.
ClaimResult SqlStore::give_named(const Claim& op, HotRow& hot) {
  begin_write();
  QueueState& queue = *hot.queue;
  const bool deferred = (hot.flags & kFlagDeferred) != 0;
  if (hot.state != JobState::available || deferred) {
    const bool before = queue.made_available;
    const bool releases = waits_in_quarantine(hot.state, hot.flags);
    leave(hot);
    count(queue, hot.state, hot.flags, -1);
    undefer(hot);
    hot.state = JobState::available;
    save_hot(hot);
    enter(hot);
    count(queue, hot.state, hot.flags, 1);
    queue.made_available = before;
    if (releases) queue.released = hot.id, note_quarantine(queue);
  }
  ClaimResult result;
  const ReadyKey at(hot.priority, hot.run_at, hot.id);
  LimitKey* const key = key_of_ready(queue, hot.id);
  const std::string key_name = key == nullptr ? "" : key->key;
  auto grant = new_grant(next_token_, op.worker, now_);
  queue.ready[hot.kind].erase(at);
  const bool claimed = claim_one(at, queue, hot.kind, op, *grant, result.jobs);
  MS_ASSERT(claimed, "a job that has not expired can begin");
  result.jobs[0].deferred = deferred;
  if (key != nullptr) settle_keys(queue, {key_name});
  keep_grant(std::move(grant), op.lease, result.jobs);
  return result;
}

}  // namespace mainspring::sql
