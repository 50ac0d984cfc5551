// Jobs in quarantine: a list built from Jobs, and an operator's release.
#pragma once

#include "broker/jobs.h"

namespace mainspring {

inline constexpr std::size_t kMaxQuarantineListed = 10'000;  // jobs; the list is cut there

// Waiting and released jobs, by queue and in the order of their release. `queue`: "" = of every
// queue. Errors: those of the reads.
Result<std::vector<Job>> quarantined_jobs(Jobs& jobs, const std::string& queue);
// Makes the job available at once. Errors: conflict (it is not in quarantine, or runs), not_found,
// expired.
Result<RetryResult> release_from_quarantine(Jobs& jobs, JobId id);

}  // namespace mainspring
