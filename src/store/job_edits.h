// Which fields of a job can change, and when. Every store applies these rules.
#pragma once

#include <string_view>

#include "store/operations.h"

namespace mainspring {

// A copy of another job, with some fields changed. Its headers have "cloned_from". It has no unique
// key and does not expire.
struct CloneJob {
  JobId id = 0;
  std::optional<std::string> args{}, queue{};
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};
};

// The facts about a job that the edit rules need.
struct ChangedJob {
  JobId id = 0;
  JobState state = JobState::available;
  std::int64_t version = 0;
  std::string_view queue{};
  bool in_session = false;
  bool deferred = false;
  bool quarantined = false;
  bool step = false;                     // of a workflow
  std::optional<WallTime> expires_at{};  // unless it starts before
};

// Checks all rules that need no store. Errors: invalid_argument, too_large, with the field.
Result<void> validate(const EditJob& edit);
// Errors: conflict.
Result<void> check_edit(const EditJob& edit, const ChangedJob& job);
Result<void> check_delete(const DeleteJob& request, const ChangedJob& job);
// `version` is the version that the caller saw; 0 = any. Errors: conflict.
Result<void> check_version(std::int64_t version, const ChangedJob& job);
// The state of a job after an edit changes its run_at.
JobState state_after_edit(JobState state, WallTime run_at, WallTime now);

// When a job that has not started was to run, and to expire.
struct JobTimes {
  WallTime run_at;
  std::optional<WallTime> expires_at{};
};
// When the job expires after an enqueue with on_conflict "postpone" moved it to `run_at`: the
// request's own expires_in from now, or else the same time after run_at as before.
std::optional<WallTime> postponed_expiry(const NewJob& request, const JobTimes& old,
                                         WallTime run_at, WallTime now);

}  // namespace mainspring
