// Rules for claims that name their job: which jobs can be claimed, and the errors for the others.
#pragma once

#include <optional>
#include <string_view>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

// The store's facts about the job that a claim names.
struct NamedJob {
  JobId id = 0;
  JobState state = JobState::available;
  bool deferred = false;
  bool quarantined = false;                 // and not released
  std::string_view queue, session, worker;  // "" = it has none
  std::optional<WallTime> expires_at;       // for a job that has not started
};
// The free capacity of the queue for the job. Limits that are not known to be used up are 1.
struct RoomForNamed {
  bool paused = false;
  int queue = 1;
  int limit_key = 1;
  int quarantine = 1;  // 0 = another job of the queue's quarantine is released
  int cost = 1;        // of the job
};

// Errors: conflict, with the reason why the job cannot be claimed.
Result<void> check_named(const NamedJob& job, WallTime now);
Result<void> check_room(const NamedJob& job, const RoomForNamed& room);
// The error of outcome Defer for a job of a session: conflict.
Error cannot_defer(JobId id, std::string_view session);

}  // namespace mainspring
