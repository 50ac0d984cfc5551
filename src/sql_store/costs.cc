// Costs: the slots that jobs of expensive kinds use, and what waits if such a job does not fit.
//
// The counters of a queue and its keys count one slot per running job; `extra` counts the slots
// beyond that. A queue without costs pays only for a look into an empty map.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/claim.h"

namespace mainspring::sql {

int SqlStore::cost_of(const QueueState& queue, std::int32_t kind) const {
  if (queue.limits.costs.empty()) return 1;
  return queue.limits.cost_of(kind_names_[static_cast<std::size_t>(kind)]);
}

int SqlStore::extra_of_key(const LimitKey& key, int cost) {
  const auto& most = key.queue->limits.per_key.concurrency;
  return cost > 1 && most ? slots_of(cost, *most) - 1 : 0;
}

int SqlStore::extra_of_queue(const QueueState& queue, int cost) {
  const auto& most = queue.limits.concurrency;
  return cost > 1 && most ? slots_of(cost, *most) - 1 : 0;
}

// Recounts with the current limits.
void SqlStore::count_costs(QueueState& queue) {
  queue.extra = 0;
  for (auto& [name, key] : queue.limit_keys) {
    key->extra = 0;
    note_key_rate(*key);  // the key may be waited for with another cost
    touched_keys_.emplace_back(&queue, name);
  }
  if (queue.limits.costs.empty()) return;
  for (const auto& [id, lease] : leases_) {
    if (lease.queue != &queue) continue;
    const int cost = cost_of(queue, lease.kind);
    queue.extra += extra_of_queue(queue, cost);
    if (lease.limit_key != nullptr) lease.limit_key->extra += extra_of_key(*lease.limit_key, cost);
  }
}

// An expired job delays no other job.
bool SqlStore::is_over(JobId id) {
  const auto hot = load_hot(id);
  MS_ASSERT(hot, "an available job has its record");
  return hot->expires_at && !hot->started_at && *hot->expires_at <= now_.wall.us();
}

// For a queue with costs: what waits because the first job of the stream does not fit.
Waits SqlStore::who_waits(ClaimWalk& claim, const ClaimStream& first) {
  QueueState& queue = *first.queue;
  if (queue.limits.costs.empty()) return Waits::no;
  const FairFronts::Front* front = first.fronts == nullptr ? nullptr : first.fronts->first();
  const JobId id = front == nullptr ? first.at->id() : front->at.id();
  LimitKey* const key = front == nullptr ? key_of_ready(queue, id) : front->key;
  const int cost = cost_of(queue, front == nullptr ? first.kind : front->kind);
  if (key != nullptr && claim.waiting_keys.contains(key)) return Waits::key;
  const bool fits_key =
      key == nullptr ||
      room_of_key(queue.limits.per_key, key->slots_taken(), key->meter, now_.wall).fits(cost);
  const bool fits_queue = room(queue).fits(cost);
  const bool fits_claim = claim.slots + std::min(cost, claim.op.max) <= claim.op.max;
  if ((fits_key && fits_queue && fits_claim) || is_over(id)) return Waits::no;
  if (!fits_key) {
    if (!MS_MUTANT(light_overtakes_heavy_of_key)) claim.waiting_keys.insert(key);
    return Waits::key;
  }
  if (!fits_queue) return MS_MUTANT(light_overtakes_heavy) ? Waits::job : Waits::queue;
  return Waits::claim;
}

// Skips a job that waits for its key, and with fair keys all jobs of the key.
void SqlStore::pass_waiting(ClaimStream& first) {
  if (first.fronts == nullptr) {
    ++first.at;
  } else {
    first.fronts->drop_key(*first.fronts->first());
  }
}

// A job that may have delayed others left the ready queue without being claimed.
void SqlStore::heavy_left(QueueState& queue, std::int32_t kind) {
  if (cost_of(queue, kind) == 1) return;
  queue.made_available = queue.made_session_available = true;
  touch(queue);
}

}  // namespace mainspring::sql
