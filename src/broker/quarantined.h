// Jobs in quarantine: a list over what Jobs answers, and an operator's release.
#pragma once

#include "broker/jobs.h"

namespace mainspring {

inline constexpr std::size_t kMaxQuarantineListed = 10'000;  // jobs; what is behind is left out

// Those that wait there and the released, by queue and in the order in which they are released.
// `queue`: "" = of every queue. Errors: those of the reads.
Result<std::vector<Job>> quarantined_jobs(Jobs& jobs, const std::string& queue);
// Puts it back in line at once. Errors: conflict (it is not in quarantine, or runs), not_found,
// expired.
Result<RetryResult> release_from_quarantine(Jobs& jobs, JobId id);

}  // namespace mainspring
