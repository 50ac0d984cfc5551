// Claim: takes the first jobs from the ready queues of its queues.
#include "sql_store/claim.h"

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "store/bounds.h"

namespace mainspring::sql {
namespace {

// Heap order: the top is the stream with the first job.
bool later(const ClaimStream& a, const ClaimStream& b) {
  return b.place < a.place;
}

// Sets `place` to that of the stream's first job; false if the stream is empty.
bool find_place(ClaimStream& stream, WallTime now) {
  if (stream.fronts != nullptr) {
    const auto* first = stream.fronts->first();
    if (first != nullptr) stream.place = first->place;
    return first != nullptr;
  }
  if (stream.at == stream.line->end()) return false;
  if (stream.priority >= 0 && stream.at->priority() != stream.priority) return false;
  stream.place = place_now(*stream.queue, *stream.at, now);
  return true;
}

}  // namespace

ReadyKey place_now(const QueueState& queue, const ReadyKey& at, WallTime now) {
  if (!queue.limits.ageing || MS_MUTANT(aged_after_higher)) return at;
  return {effective_priority(at.priority(), at.run_at(), queue.limits.ageing, now), at.run_at(),
          at.id()};
}

void SqlStore::add_streams(ClaimWalk& claim, QueueState& queue) {
  FairFronts* fair = nullptr;
  if (queue.limits.per_key.fair) {
    claim.fair.push_back(std::make_unique<FairFronts>(queue, keyed_, now_.wall));
    fair = claim.fair.back().get();
  }
  const auto wanted = [&](std::int32_t kind) {
    const auto& kinds = claim.op.kinds;
    return kinds.empty() || std::find(kinds.begin(), kinds.end(),
                                      kind_names_[static_cast<std::size_t>(kind)]) != kinds.end();
  };
  const ReadyKey nowhere(0, WallTime(), 0);
  const auto add = [&](ClaimStream stream) {
    skip_idle(claim, stream);
    if (find_place(stream, now_.wall)) claim.heap.push_back(stream);
  };
  for (auto& [kind, ready] : queue.ready) {
    if (ready.empty() || !wanted(kind)) continue;
    if (fair != nullptr) {
      fair->add_free(kind, ready);
    } else if (!queue.limits.ageing) {
      add({&queue, kind, &ready, ready.begin(), -1, nullptr, nowhere});
    } else {
      for (auto at = ready.begin(); at != ready.end();) {
        add({&queue, kind, &ready, at, at->priority(), nullptr, nowhere});
        at = ready.lower_bound(ReadyKey(at->priority() + 1, WallTime(), 0));
      }
    }
  }
  if (fair == nullptr) return;
  for (auto& [name, key] : queue.limit_keys) {
    if (key->is_full()) continue;
    for (auto& [which, line] : key->lines) {
      if (wanted(which.first)) fair->add_key(*key, which, line);
    }
  }
  add({&queue, 0, nullptr, {}, -1, fair, nowhere});
}

OperationResult SqlStore::operator()(const Claim& op) {
  if (is_of_queue(op)) {
    if (const auto session = parse_session_queue(op.queues[0]))
      return claim_of_session(op, *session);
    return claim_next_session(op, find_queue(base_queue_of(op.queues[0])));
  }
  if (op.job != 0) return claim_named(op);
  ClaimResult result;
  std::vector<QueueState*> queues;
  for (const std::string& name : op.queues) step_breaker_of(name);
  for (const std::string& name : op.queues) {
    QueueState* queue = find_queue(name);
    if (queue != nullptr && room(*queue).jobs() > 0) queues.push_back(queue);
  }
  std::sort(queues.begin(), queues.end());
  queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
  auto grant = new_grant(next_token_, op.worker, now_);
  ClaimWalk claim{.op = op, .grant = *grant, .jobs = result.jobs};
  for (QueueState* queue : queues) add_streams(claim, *queue);
  auto& heap = claim.heap;
  if (heap.empty()) return result;
  begin_write();
  std::make_heap(heap.begin(), heap.end(), later);
  result.jobs.reserve(static_cast<std::size_t>(std::min(op.max, 1000)));
  while (!heap.empty() && claim.slots < op.max && claim.bytes < kPageBytes) {
    std::pop_heap(heap.begin(), heap.end(), later);
    ClaimStream& first = heap.back();
    const bool closed = first.queue->limits.any() &&
                        (claim.waiting.contains(first.queue) || room(*first.queue).jobs() == 0);
    const Waits waits = closed ? Waits::queue : who_waits(claim, first);
    if (waits == Waits::claim) break;
    if (waits == Waits::queue) {
      claim.waiting.insert(first.queue);
      heap.pop_back();
      continue;
    }
    if (waits != Waits::no) {
      pass_waiting(first);
    } else if (first.fronts != nullptr) {
      take_fair(claim, *first.fronts);
    } else {
      take_first(claim, first);
    }
    skip_idle(claim, first);
    if (find_place(first, now_.wall)) {
      std::push_heap(heap.begin(), heap.end(), later);
    } else {
      heap.pop_back();
    }
  }
  for (const auto& [queue, keys] : claim.taken) settle_keys(*queue, keys);
  if (!result.jobs.empty()) keep_grant(std::move(grant), op.lease, result.jobs);
  return result;
}

// A stream's first job represents its queue among other streams, so it must be able to start: an
// older job may follow it.
void SqlStore::skip_idle(ClaimWalk& claim, ClaimStream& stream) {
  if (stream.fronts == nullptr || claim.op.queues.size() == 1) return;
  while (FairFronts::Front* first = stream.fronts->first()) {
    if (who_waits(claim, stream) == Waits::key) {
      stream.fronts->drop_key(*first);
    } else if (is_over(first->at.id())) {
      stream.fronts->pass(*first);
    } else {
      return;
    }
  }
}

void SqlStore::take_first(ClaimWalk& claim, ClaimStream& first) {
  const ReadyKey at = *first.at;
  LimitKey* const key = key_of_ready(*first.queue, at.id());
  if (key != nullptr && key->is_full()) {
    ++first.at;
  } else if (claim_one(at, *first.queue, first.kind, claim.op, claim.grant, claim.jobs)) {
    first.at = first.line->erase(first.at);
    claim.slots += std::min(claim.jobs.back().cost, claim.op.max);
    claim.bytes += claimed_bytes(claim.jobs.back());
    if (key != nullptr) claim.taken[first.queue].push_back(key->key);
  } else {
    ++first.at;
  }
  if (key != nullptr && !key->is_full()) {
    key->show({first.kind, at.priority()}, at);
    first.at = first.line->upper_bound(at);
  }
}

void SqlStore::take_fair(ClaimWalk& claim, FairFronts& fronts) {
  QueueState& queue = fronts.queue();
  FairFronts::Front& front = *fronts.first();
  const std::string key = front.key == nullptr ? "" : front.key->key;
  if (claim_one(front.at, queue, front.kind, claim.op, claim.grant, claim.jobs)) {
    const int cost = claim.jobs.back().cost;
    claim.slots += std::min(cost, claim.op.max);
    claim.bytes += claimed_bytes(claim.jobs.back());
    front.line->erase(front.at);
    if (front.key != nullptr) claim.taken[&queue].push_back(key);
    count_fair(queue, key, cost);
  }
  fronts.pass(front);
}

}  // namespace mainspring::sql
