// Empty queues of the model store: removed by an operator, or forgotten after a time.
#pragma once

#include <algorithm>
#include <optional>

#include "conformance/model_state.h"

namespace mainspring {

inline bool queue_has_jobs(const ModelDisk& disk, const std::string& name) {
  return std::any_of(disk.jobs.begin(), disk.jobs.end(),
                     [&](const auto& entry) { return entry.second.job.queue == name; });
}

inline std::optional<OperationResult> may_remove(const ModelDisk& disk, const std::string& name) {
  if (!disk.queues.contains(name) || disk.is_removed(name))
    return Error{.code = ErrorCode::not_found, .message = "there is no such queue"};
  if (queue_has_jobs(disk, name))
    return Error{.code = ErrorCode::conflict, .message = "it has jobs"};
  return std::nullopt;
}

inline std::optional<Error> misses_queue(const ModelDisk& disk, const Operation& one) {
  return std::visit(
      [&](const auto& op) -> std::optional<Error> {
        if constexpr (requires { op.create; }) {
          if (!op.create && !disk.has_queue(op.queue)) return no_queue(op.queue);
        }
        return std::nullopt;
      },
      one);
}

inline void remove_queue(ModelDisk& disk, const std::string& name, WallTime now) {
  QueueStats& q = disk.queues.at(name);
  q.paused = false;
  q.pause.reset();
  q.retention_completed = q.retention_dead = std::nullopt;
  disk.empty[name] = {now, q.enqueued, true};
}

inline StepResult forget_queues(ModelDisk& disk, const ForgetQueues& op, WallTime now,
                                bool& dirty) {
  StepResult result;
  int changed = 0;
  for (const auto& [name, q] : disk.queues) {
    const bool plain =
        !q.paused && !q.retention_completed && !q.retention_dead && q.limits.is_default();
    if (disk.is_removed(name) || !plain || queue_has_jobs(disk, name)) continue;
    EmptyMark& mark = disk.empty[name];
    const bool known = mark.since && mark.enqueued == q.enqueued && *mark.since <= now;
    const bool over = known && now - *mark.since >= op.idle;
    if (known && !over) continue;
    if (changed == op.limit) {
      result.more = true;
      break;
    }
    if (!over) mark.since = now;
    mark.enqueued = q.enqueued;
    mark.removed = over;
    dirty = true;
    ++changed;
    if (over) ++result.changed;
  }
  return result;
}

}  // namespace mainspring
