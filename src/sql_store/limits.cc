// Limits of queues: how much a claim may take, and when a closed queue opens.
#include "api/limit_shapes.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

std::int64_t QueueState::slots_taken() const {
  return job_counts.counts[static_cast<std::size_t>(JobState::running)] + extra;
}

int QueueState::begins_awaited() const {
  if (!opens_at || !limits.rate) return 0;
  return mainspring::begins_awaited(limits, *limits.rate, meter, *opens_at);
}

std::optional<WallTime> QueueState::closed_until() const {
  return mainspring::closed_until(limits, meter, opens_at);
}

bool QueueState::is_closed() const {
  if (paused || closed_until() || (breaker != nullptr && breaker->meter.room() == 0)) return true;
  return limits.concurrency && slots_taken() >= *limits.concurrency;
}

Room SqlStore::room(const QueueState& queue) const {
  if (queue.paused) return Room::none();
  const std::int64_t taken = MS_MUTANT(concurrency_ignored) ? 0 : queue.slots_taken();
  Room room = room_of(queue.limits, taken, queue.meter, now_.wall);
  return queue.breaker == nullptr ? room : room.bound_jobs(queue.breaker->meter.room());
}

// Counts the start of a job of this cost.
void SqlStore::count_started(QueueState& queue, int cost) {
  if (!queue.limits.rate) return;
  const int awaited = queue.begins_awaited();
  queue.meter.take(*queue.limits.rate, now_.wall, begins_of(cost, *queue.limits.rate));
  note_rate(queue);
  // This claim runs before OpenQueues, which will then find nothing to open: notify waiting claims
  // now.
  const bool opened = awaited > 0 && (!queue.opens_at || queue.begins_awaited() > awaited);
  if (opened && !MS_MUTANT(early_claim_wakes_no_worker)) open_queue(queue);
}

void SqlStore::note_rate(QueueState& queue) {
  if (queue.opens_at) openings_.erase({*queue.opens_at, queue.name});
  queue.opens_at.reset();
  const auto& rate = queue.limits.rate;
  const auto next = rate ? next_rate_opening(queue.limits, *rate, queue.meter, now_.wall)
                         : std::optional<RateOpening>();
  if (next) {
    queue.opens_at = next->at;
    openings_.emplace(*queue.opens_at, queue.name);
  }
  queue.limits_changed = true;
  touch(queue);
}

// The queue may give jobs again.
void SqlStore::open_queue(QueueState& queue) {
  touch(queue);
  queue.made_available = queue.made_session_available = true;
  for (const auto& [ends, id] : hold_ends_) {
    Session& session = *sessions_.at(id);
    if (session.queue == &queue) session.gained = true, list_session(session);
  }
}

OperationResult SqlStore::operator()(const SetQueueLimits& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  if (!op.limits.breaker.empty() && find_breaker(op.limits.breaker) == nullptr)
    return unknown_breaker(op.limits.breaker);
  QueueState& queue = queue_of(op.queue);
  if (!has_room_for_searchable(queue, op.limits)) return too_many_searchable(op.queue);
  begin_write();
  set_searchable(queue, op.limits.searchable);
  set_breaker(queue, op.limits.breaker);
  if (queue.limits.rate != op.limits.rate) queue.meter = {};
  if (queue.limits.per_key.fair != op.limits.per_key.fair) drop_fair_keys(queue);
  if (queue.limits.per_key.rate != op.limits.per_key.rate) drop_key_meters(queue);
  const bool costs = !queue.limits.costs.empty() || !op.limits.costs.empty();
  queue.limits = op.limits;
  if (queue.removed) queue.removed = false, save_queue(queue);
  if (costs && !MS_MUTANT(costs_count_only_what_begins)) count_costs(queue);
  note_rate(queue);
  settle_all_keys(queue);
  open_queue(queue);
  return Done{};
}

OperationResult SqlStore::operator()(const OpenQueues& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  StepResult result;
  tell_of_keys();
  std::vector<QueueState*> due;
  for (const auto& [at, name] : openings_) {
    if (at > now_.wall || std::ssize(due) == op.limit) break;
    due.push_back(find_queue(name));
  }
  for (QueueState* queue : due) {
    begin_write();
    note_rate(*queue);
    open_queue(*queue);
  }
  result.changed = static_cast<int>(due.size());
  result.changed += resume_queues(op.limit - result.changed);
  for (auto& [name, breaker] : breakers_) {
    if (breaker.meter.state() != BreakerState::open || breaker.meter.open_until() > now_.wall)
      continue;
    if (result.changed == op.limit) break;
    step_breaker(breaker);
    ++result.changed;
  }
  result.changed += release_quarantined(op.limit - result.changed);
  result.more = result.changed == op.limit;
  return result;
}

void SqlStore::write_limits() {
  write_key_meters();
  for (QueueState* queue : touched_) {
    if (!queue->served_keys.empty()) write_fair_keys(*queue);
    if (!queue->limits_changed) continue;
    queue->limits_changed = false;
    const std::string limits = limits_text(queue->limits);
    const std::string meter = MS_MUTANT(rate_not_kept) ? "" : queue->meter.text();
    const auto opens_at = queue->opens_at ? std::optional(queue->opens_at->us()) : std::nullopt;
    sql_->update_limits
        .bind(queue->id, Statement::text_or_null(limits), Statement::text_or_null(meter), opens_at)
        .run();
  }
}

void SqlStore::load_limits() {
  openings_.clear();
  load_breakers();
  Statement rows(db_, queries::limits::load_limits);
  while (rows.step()) {
    QueueState& queue = queue_by_id(rows.integer(0));
    auto limits = parse_limits(rows.text(1));
    if (!limits) throw damaged(limits.error().message);
    queue.limits = std::move(*limits);
    if (!queue.limits.breaker.empty()) {
      queue.breaker = find_breaker(queue.limits.breaker);
      if (queue.breaker == nullptr) throw damaged("a queue names a missing breaker");
      queue.breaker->queues.push_back(&queue);
    }
    queue.meter = RateMeter::parse(rows.text(2));
    if (rows.is_null(3)) continue;
    queue.opens_at = WallTime::from_us(rows.integer(3));
    openings_.emplace(*queue.opens_at, queue.name);
  }
  load_key_meters();
}

}  // namespace mainspring::sql
