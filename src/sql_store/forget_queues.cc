// Removes empty queues, by an operator or after a time. The row of a removed queue stays, so that
// its id and counters are never reused for another queue; no list shows it.
#include <fmt/format.h>

#include <numeric>

#include "api/pause_shapes.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

std::int64_t jobs_of(const QueueState& queue) {
  const auto& counts = queue.job_counts.counts;
  return std::accumulate(counts.begin(), counts.end(), queue.job_counts.expired);
}

bool has_defaults(const QueueState& queue) {
  return !queue.paused && !queue.retention_completed && !queue.retention_dead &&
         queue.limits.is_default();
}

}  // namespace

void SqlStore::save_queue(const QueueState& queue) {
  const auto us = [](const std::optional<Duration>& d) {
    return d ? std::optional<std::int64_t>(d->count()) : std::nullopt;
  };
  const std::string pause = pause_text(queue.pause);
  sql_->update_queue
      .bind(queue.id, queue.paused && !MS_MUTANT(pause_not_kept) ? 1 : 0,
            us(queue.retention_completed), us(queue.retention_dead),
            queue.empty_since ? std::optional<std::int64_t>(queue.empty_since->us()) : std::nullopt,
            queue.empty_at, queue.removed ? 1 : 0, Statement::text_or_null(pause))
      .run();
}

bool SqlStore::has_queue(std::string_view name) const {
  const QueueState* queue = find_queue(name);
  return queue != nullptr && !queue->is_removed();
}

OperationResult SqlStore::operator()(const RemoveQueue& op) {
  QueueState* queue = find_queue(op.queue);
  if (!has_queue(op.queue)) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("queue {}: there is no such queue", op.queue)};
  }
  if (const std::int64_t jobs = jobs_of(*queue); jobs > 0) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("queue {}: has {} {}: must be empty to be removed",
                                        op.queue, jobs, jobs == 1 ? "job" : "jobs")};
  }
  begin_write();
  if (!queue->limits.is_default()) (*this)(SetQueueLimits{.queue = op.queue, .limits = {}});
  set_pause(*queue, std::nullopt);
  queue->retention_completed = queue->retention_dead = std::nullopt;
  forget_queue(*queue, true);
  return Done{};
}

void SqlStore::forget_queue(QueueState& queue, bool removed) {
  if (!removed || !queue.empty_since) queue.empty_since = now_.wall;
  queue.empty_at = queue.job_counts.enqueued;
  queue.removed = removed;
  save_queue(queue);
  touch(queue);
}

OperationResult SqlStore::operator()(const ForgetQueues& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  StepResult result;
  int changed = 0;
  for (QueueState& queue : queue_states_) {
    if (queue.is_removed() || !has_defaults(queue) || jobs_of(queue) > 0) continue;
    // A time in the future was set by a clock that was ahead.
    const bool known = queue.empty_since && queue.empty_at == queue.job_counts.enqueued &&
                       *queue.empty_since <= now_.wall;
    const bool over = known && now_.wall - *queue.empty_since >= op.idle;
    if (known && !over) continue;
    if (changed == op.limit) {
      result.more = true;
      break;
    }
    begin_write();
    forget_queue(queue, over);
    ++changed;
    if (over) ++result.changed;
  }
  return result;
}

}  // namespace mainspring::sql
