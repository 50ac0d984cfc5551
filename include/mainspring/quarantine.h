// Quarantine of an engine: jobs that are set apart, because their workers were lost with them.
//
// How many lost attempts it takes is QueueLimits::quarantine_after. Guide:
// docs/guides/quarantine.md.
#pragma once

#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

class Jobs;

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument, unavailable.
class EngineQuarantine {
 public:
  explicit EngineQuarantine(Jobs& jobs) : jobs_(&jobs) {}

  // Those that wait there and the released (Job::quarantined says which), by queue and in the order
  // in which they are released, up to 10,000; without errors and checkpoint. "" = of every queue.
  Result<std::vector<Job>> list(const std::string& queue = "");
  // Puts it back in line at once, its lost attempts counted anew. Answers its state. Errors:
  // conflict (it is not in quarantine, or runs), not_found, expired.
  Result<JobState> release(JobId id);

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
