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

// As a store lists them. Errors: invalid_argument (names, fingerprint).
Result<JobFilter> job_filter_of(const DeadFilter& filter);

// Those that match and have an id above `after`, of the newest `most` of them, oldest first.
Result<std::vector<DeadJob>> find_dead(Jobs& jobs, const DeadFilter& filter, JobId after,
                                       std::size_t most);

}  // namespace mainspring
