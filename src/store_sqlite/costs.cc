// Costs: which slots the jobs of heavy kinds take, and who waits where one does not fit.
//
// What runs is known by the counters of its queue and key, one slot for each job, and by what these
// take beyond that. A queue without costs pays a look at an empty map.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "store_sqlite/claim.h"

namespace mainspring::sqlite {

int SqliteStore::cost_of(const QueueState& queue, std::int32_t kind) const {
  if (queue.limits.costs.empty()) return 1;
  return queue.limits.cost_of(kind_names_[static_cast<std::size_t>(kind)]);
}

int SqliteStore::extra_of_key(const LimitKey& key, int cost) {
  const auto& most = key.queue->limits.per_key.concurrency;
  return cost > 1 && most ? slots_of(cost, *most) - 1 : 0;
}

int SqliteStore::extra_of_queue(const QueueState& queue, int cost) {
  const auto& most = queue.limits.concurrency;
  return cost > 1 && most ? slots_of(cost, *most) - 1 : 0;
}

// By the limits as they are now.
void SqliteStore::count_costs(QueueState& queue) {
  queue.extra = 0;
  for (auto& [name, key] : queue.limit_keys) {
    key->extra = 0;
    note_key_rate(*key);  // it may be waited for until there is enough for another cost
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

// Nobody has started it in time: it holds up nobody.
bool SqliteStore::is_over(JobId id) {
  const auto hot = load_hot(id);
  MS_ASSERT(hot, "an available job has its record");
  return hot->expires_at && !hot->started_at && *hot->expires_at <= now_.wall.us();
}

// Of a queue with costs: who waits because the first job of the stream does not fit.
Waits SqliteStore::who_waits(ClaimWalk& claim, const ClaimStream& first) {
  QueueState& queue = *first.queue;
  if (queue.limits.costs.empty()) return Waits::nobody;
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
  if ((fits_key && fits_queue && fits_claim) || is_over(id)) return Waits::nobody;
  if (!fits_key) {
    if (!MS_MUTANT(light_overtakes_heavy_of_key)) claim.waiting_keys.insert(key);
    return Waits::key;
  }
  if (!fits_queue) return MS_MUTANT(light_overtakes_heavy) ? Waits::job : Waits::queue;
  return Waits::claim;
}

// Behind a job that waits for its key, or with it all of its key.
void SqliteStore::pass_waiting(ClaimStream& first) {
  if (first.fronts == nullptr) {
    ++first.at;
  } else {
    first.fronts->drop_key(*first.fronts->first());
  }
}

// A job that may have held up others is not in its line any more, and was not claimed.
void SqliteStore::heavy_left(QueueState& queue, std::int32_t kind) {
  if (cost_of(queue, kind) == 1) return;
  queue.made_available = queue.made_session_available = true;
  touch(queue);
}

}  // namespace mainspring::sqlite
