// Which dead jobs a redrive is about.
#pragma once

#include <string>
#include <vector>

#include "broker/jobs.h"
#include "mainspring/dead.h"

namespace mainspring {

struct DeadJob {
  JobId id = 0;
  std::string fingerprint;  // of what it died of
  int attempt = 0;          // in which it died
};

// Those that match and have an id above `after`, of the newest `most` of them, oldest first.
Result<std::vector<DeadJob>> find_dead(Jobs& jobs, const DeadFilter& filter, JobId after,
                                       std::size_t most);

// False: somebody has removed it, or a workflow or another job with its unique key is in the way.
// Errors: those of retry, else.
Result<bool> retry_dead(Jobs& jobs, JobId id);

}  // namespace mainspring
