// Pauses of queues in the model store, and their ends.
#pragma once

#include <set>

#include "api/audit_images.h"
#include "conformance/model_access.h"
#include "conformance/model_state.h"

namespace mainspring {

// False: nothing changed.
inline bool set_pause(QueueStats& q, const PauseQueue& op, bool is_new, WallTime now) {
  std::optional<QueuePause> pause;
  if (op.paused) pause = QueuePause{op.reason, op.by, now, op.until};
  const bool same = pause.has_value() == q.pause.has_value() &&
                    (!pause || (pause->reason == q.pause->reason && pause->by == q.pause->by &&
                                pause->until == q.pause->until));
  if (!is_new && same) return false;
  q.paused = op.paused;
  q.pause = pause;
  return true;
}

inline WallTime next_resume(const ModelDisk& disk) {
  WallTime next = WallTime::never();
  for (const auto& [name, q] : disk.queues) {
    if (q.pause && q.pause->until) next = std::min(next, *q.pause->until);
  }
  return next;
}

// Resumes up to `limit` queues whose pause is over and records it. Returns the queues.
inline std::vector<std::string> resume_queues(ModelDisk& disk, ModelAccess& access, Now now,
                                              int limit) {
  std::set<std::pair<WallTime, std::string>> due;
  for (const auto& [name, q] : disk.queues) {
    if (q.pause && q.pause->until && *q.pause->until <= now.wall)
      due.emplace(*q.pause->until, name);
  }
  std::vector<std::string> resumed;
  for (const auto& [until, name] : due) {
    if (std::ssize(resumed) == limit) break;
    Audit audit = resumed_by_itself(name);
    audit.alone = true;
    audit.before = access.image(audit.object);
    QueueStats& q = disk.queues.at(name);
    q.paused = false;
    q.pause.reset();
    audit.after = access.image(audit.object);
    access.run(audit, now);
    resumed.push_back(name);
  }
  return resumed;
}

}  // namespace mainspring
