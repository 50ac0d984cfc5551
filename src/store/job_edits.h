// What may be changed of a job, and when: the rules that every store keeps.
#pragma once

#include <string_view>

#include "store/operations.h"

namespace mainspring {

// A new job like another one, with some fields changed. Its headers say "cloned_from". It has no
// unique key and does not expire.
struct CloneJob {
  JobId id = 0;
  std::optional<std::string> args{}, queue{};
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};
};

// What these rules need to know of a job.
struct ChangedJob {
  JobId id = 0;
  JobState state = JobState::available;
  std::int64_t version = 0;
  std::string_view queue{};
  bool in_session = false;
  bool deferred = false;
  bool quarantined = false;
  bool step = false;  // of a workflow
};

// Every rule of an edit that needs no store. Errors: invalid_argument, too_large, with the field.
Result<void> validate(const EditJob& edit);
// Errors: conflict.
Result<void> check_edit(const EditJob& edit, const ChangedJob& job);
Result<void> check_delete(const DeleteJob& request, const ChangedJob& job);
// `version` is what the caller saw; 0 = whatever it is. Errors: conflict.
Result<void> check_version(std::int64_t version, const ChangedJob& job);
// The state that the job wants after an edit that gives it another run_at.
JobState state_after_edit(JobState state, WallTime run_at, WallTime now);

}  // namespace mainspring
