// Quarantine of an engine: jobs whose workers were lost again and again. They run one at a time.
//
// QueueLimits::quarantine_after sets the number of lost attempts. Guide: docs/guides/quarantine.md.
#pragma once

#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

class Jobs;

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument,
// unavailable.
class EngineQuarantine {
 public:
  explicit EngineQuarantine(Jobs& jobs) : jobs_(&jobs) {}

  // Waiting and released jobs (see Job::quarantined), by queue and in the order of their release,
  // up to 10,000; without errors and checkpoint. "" = of every queue.
  Result<std::vector<Job>> list(const std::string& queue = "");
  // Makes the job available at once and resets its count of lost attempts. Returns its state.
  // Errors: conflict (it is not in quarantine, or runs), not_found, expired.
  Result<JobState> release(JobId id);

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
