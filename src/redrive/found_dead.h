// Finds the dead jobs of a redrive.
#pragma once

#include <string>
#include <vector>

#include "broker/jobs.h"
#include "mainspring/dead.h"

namespace mainspring {

struct DeadJob {
  JobId id = 0;
  std::string fingerprint;  // of the cause of its death
  int attempt = 0;          // in which it died
};

// Matching jobs with an id above `after`, of the newest `most` of them, oldest first.
Result<std::vector<DeadJob>> find_dead(Jobs& jobs, const DeadFilter& filter, JobId after,
                                       std::size_t most);

// Returns false if the job was removed, belongs to a workflow, or another job has its unique key.
// Errors: the other errors of retry.
Result<bool> retry_dead(Jobs& jobs, JobId id);

}  // namespace mainspring
