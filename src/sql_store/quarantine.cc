// Quarantine: jobs whose last attempts were all lost wait in a ready queue of their own; one at a
// time is released. See Quarantine in mainspring/job.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

int lost_of(int flags) {
  return (flags & kLostFlags) / kLostUnit;
}

int lost_flags(int lost) {
  return std::min(lost, kMaxLost) * kLostUnit;
}

bool waits_in_quarantine(JobState state, int flags) {
  return state == JobState::retryable && (flags & kFlagQuarantined) != 0;
}

// When the first job can be released, assuming none is released now.
WallTime QueueState::next_release() const {
  WallTime next = WallTime::never();
  for (int priority = 0; priority <= kLowestPriority; ++priority) {
    const auto first = quarantine.lower_bound(ReadyKey(priority, WallTime(), 0));
    if (first == quarantine.end()) break;
    priority = first->priority();
    next = std::min(next, first->run_at());
  }
  return next;
}

JobId QueueState::first_to_release(WallTime now) const {
  for (int priority = 0; priority <= kLowestPriority; ++priority) {
    const auto first = quarantine.lower_bound(ReadyKey(priority, WallTime(), 0));
    if (first == quarantine.end()) break;
    priority = first->priority();
    if (first->run_at() <= now) return first->id();
  }
  return 0;
}

void SqlStore::note_quarantine(QueueState& queue) {
  touch(queue);
  if (queue.quarantine.empty() && queue.released == 0) {
    quarantines_.erase(queue.name);
  } else {
    quarantines_.emplace(queue.name, &queue);
  }
}

bool Lease::is_unstarted() const {
  return kept == Duration(0) && !MS_MUTANT(unstarted_loss_counts);
}

bool Lease::over_limit(Instant now) const {
  return timeout != kForever && now >= grant->claimed_instant + timeout + kTimeoutGrace;
}

// The attempt under this lease was lost; the caller ends it.
void SqlStore::lose_attempt(JobId id, Lease& lease) {
  QueueState& queue = *lease.queue;
  if (!lease.is_unstarted()) lease.flags &= ~kUnstartedFlags;
  if (lease.cancel_requested || lease.attempt >= lease.max_attempts)
    return leave_quarantine(id, queue, lease.flags);
  const int lost = lost_of(lease.flags) + 1;
  lease.flags = (lease.flags & ~kLostFlags) | lost_flags(lost);
  const bool was = (lease.flags & kFlagQuarantined) != 0;
  const int after = queue.limits.lost_before_quarantine();
  if (after == 0 || (lost < after && !was) || MS_MUTANT(quarantine_ignored)) {
    // The count may have been reset to 0 meanwhile: then released jobs leave quarantine.
    const int counted = lease.flags & (kLostFlags | kUnstartedFlags);
    leave_quarantine(id, queue, lease.flags);
    lease.flags |= counted;
    return;
  }
  if (queue.released == id || MS_MUTANT(quarantine_freed_by_another)) queue.released = 0;
  if (!was) {
    lease.flags |= kFlagQuarantined;
    sql_->insert_quarantined.bind(id, now_.wall.us()).run();
    quarantined_.push_back(id);
    log_.warn("a job was lost with its workers repeatedly: it is quarantined",
              {{"job", fmt::to_string(id)}, {"queue", queue.name}, {"lost", fmt::to_string(lost)}});
  }
  note_quarantine(queue);
}

// The job's worker reported, the job ends, or an operator retries it. The job is no longer in the
// quarantine's queue; the caller writes the row.
void SqlStore::leave_quarantine(JobId id, QueueState& queue, int& flags) {
  if ((flags & kFlagQuarantined) != 0) {
    sql_->delete_quarantined.bind(id).run();
    left_quarantine_.push_back(id);
    if (queue.released == id && !MS_MUTANT(quarantine_never_free)) queue.released = 0;
    note_quarantine(queue);
  }
  flags &= ~kFlagQuarantined;
  if (!MS_MUTANT(quarantine_counts_words)) flags &= ~(kLostFlags | kUnstartedFlags);
}

// Returns how many were released.
int SqlStore::release_quarantined(int limit) {
  std::vector<std::pair<QueueState*, JobId>> due;
  for (const auto& [name, queue] : quarantines_) {
    if (std::ssize(due) == limit) break;
    if (queue->released != 0 && !MS_MUTANT(quarantine_gives_two)) continue;
    const JobId first = queue->first_to_release(now_.wall);
    if (first != 0) due.emplace_back(queue, first);
  }
  for (const auto& [queue, id] : due) {
    begin_write();
    auto hot = load_hot(id);
    leave(*hot);
    count(*queue, hot->state, hot->flags, -1);
    hot->state = state_in_session(*hot, JobState::available);
    ++hot->version;
    save_hot(*hot);
    enter(*hot);
    count(*queue, hot->state, hot->flags, 1);
    queue->released = id;
    note_quarantine(*queue);
  }
  return static_cast<int>(due.size());
}

WallTime SqlStore::next_release() const {
  WallTime next = WallTime::never();
  for (const auto& [name, queue] : quarantines_) {
    if (queue->released == 0) next = std::min(next, queue->next_release());
  }
  return next;
}

// Called before the lists of ended jobs are cleared.
void SqlStore::tell_quarantine(Effects& effects) {
  effects.quarantined = std::exchange(quarantined_, {});
  effects.quarantine_left = std::exchange(left_quarantine_, {});
  const auto over = [this](JobId id) {
    return std::find(ended_.begin(), ended_.end(), id) != ended_.end();
  };
  std::erase_if(effects.quarantined, over);
  std::erase_if(effects.quarantine_left, over);
}

void SqlStore::load_quarantine() {
  quarantines_.clear();
  if (MS_MUTANT(quarantine_forgotten_at_start)) return;
  Statement rows(db_, queries::jobs::load_quarantined);
  while (rows.step()) {
    QueueState& queue = queue_by_id(rows.integer(1));
    if (rows.one_of(2, JobState::dead) == JobState::retryable) {
      queue.quarantine.emplace(static_cast<int>(rows.integer(3)),
                               WallTime::from_us(rows.integer(4)), rows.integer(0));
    } else {
      queue.released = rows.integer(0);
    }
    quarantines_.emplace(queue.name, &queue);
  }
}

}  // namespace mainspring::sql
