// Claims of sessions: the next free session, and the head of a held session.
#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

bool SqlStore::is_of_queue(const Claim& op) {
  return op.queues.size() == 1 && op.queues[0].starts_with('~');
}

// Reads the session data that the job's row lacks. `key` may point into a row that is being read.
void SqlStore::read_session(std::string_view key, QueueState& queue, Lease& lease,
                            ClaimedJob& job) {
  job.session = key;
  Session* session = find_session(queue, key);
  MS_ASSERT(session != nullptr, "the session of a living job is there");
  lease.session = session->id;
  job.session_state = state_of(*session);
}

OperationResult SqlStore::claim_next_session(const Claim& op, QueueState* queue) {
  ClaimResult result;
  if (queue == nullptr) return result;
  step_breaker_of(queue->name);
  if (queue->ready_sessions.empty()) return result;
  if (room(*queue).jobs() == 0 && !MS_MUTANT(sessions_not_limited)) return result;
  if (hold_ends_.size() >= kMaxHeldSessions) return too_many_held();
  begin_write();
  // First the session's token, then the job's.
  const Token token = next_token_++;
  auto grant = new_grant(next_token_, op.worker, now_);
  for (auto at = queue->ready_sessions.begin(); at != queue->ready_sessions.end();) {
    const auto [key, kind] = *at++;
    const int cost = cost_of(*queue, kind);
    if (cost > 1 && !room(*queue).fits(cost) && !is_over(key.id())) break;
    if (!claim_one(key, *queue, kind, op, *grant, result.jobs)) continue;
    queue->ready[kind].erase(key);
    break;
  }
  if (result.jobs.empty()) {
    next_token_ = token;  // not used yet
    return result;
  }
  Session& session = session_by_id(leases_.at(result.jobs[0].id).session);
  hold(session, op.worker, op.lease, token);
  result.session = grant_of(session, false);
  keep_grant(std::move(grant), op.lease, result.jobs);
  return result;
}

OperationResult SqlStore::claim_of_session(const Claim& op, const SessionKey& key) {
  Session* session = find_held(key, op.session_token);
  if (session == nullptr) return session_lost(key);
  ClaimResult result;
  step_breaker_of(key.queue);
  if (!session->ready) return result;
  if (room(*session->queue).jobs() == 0) return result;
  auto hot = load_hot(session->head);
  MS_ASSERT(hot && hot->state == JobState::waiting, "the job with the head waits for the holder");
  if (hot->expires_at && !hot->started_at && *hot->expires_at <= now_.wall.us()) return result;
  if (!room(*session->queue).fits(cost_of(*session->queue, hot->kind))) return result;
  begin_write();
  // The grant makes the job running; its row says available.
  count(*hot->queue, hot->state, hot->flags, -1);
  hot->state = JobState::available;
  save_hot(*hot);
  count(*hot->queue, hot->state, hot->flags, 1);
  session->ready = false;
  auto grant = new_grant(next_token_, op.worker, now_);
  const bool claimed = claim_one(ReadyKey(hot->priority, hot->run_at, hot->id), *hot->queue,
                                 hot->kind, op, *grant, result.jobs);
  MS_ASSERT(claimed, "a job that has not expired can begin");
  keep_grant(std::move(grant), op.lease, result.jobs);
  return result;
}

}  // namespace mainspring::sql
