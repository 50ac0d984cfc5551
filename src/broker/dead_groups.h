// The dead letter by what jobs died of, as a store has it.
#pragma once

#include "mainspring/dead.h"
#include "store/store.h"

namespace mainspring {

// As a store lists them; the fingerprint is not in it. Errors: invalid_argument (queue, kind,
// fingerprint).
Result<JobFilter> job_filter_of(const DeadFilter& filter);

// Of the newest kMaxDeadLooked jobs of `filter`, which says dead. `payloads`: of which queues the
// messages may be shown. Errors: those of the read.
Result<DeadGroups> group_dead(const Store& store, const JobFilter& filter,
                              const Within& payloads = {});

}  // namespace mainspring
