// Claims that name their job: which job they get, and what the others are told.
#pragma once

#include <optional>
#include <string_view>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

// What a store knows of the job that a claim names.
struct NamedJob {
  JobId id = 0;
  JobState state = JobState::available;
  bool deferred = false;
  bool quarantined = false;                 // and not released
  std::string_view queue, session, worker;  // "" = it has none
  std::optional<WallTime> expires_at;       // of one that has not started
};
// Which room its queue has for it. One that is not known to be short is 1.
struct RoomForNamed {
  bool paused = false;
  int queue = 1;
  int limit_key = 1;
  int quarantine = 1;  // 0 = another job of it is released
  int cost = 1;        // of the job
};

// Errors: conflict, which says what holds it.
Result<void> check_named(const NamedJob& job, WallTime now);
Result<void> check_room(const NamedJob& job, const RoomForNamed& room);
// Of an outcome Defer for a job of a session: conflict.
Error cannot_defer(JobId id, std::string_view session);

}  // namespace mainspring
