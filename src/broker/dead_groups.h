// The dead letter of a store, grouped by cause.
#pragma once

#include "mainspring/dead.h"
#include "store/store.h"

namespace mainspring {

// The filter for the store's list; without the fingerprint. Errors: invalid_argument (queue, kind,
// fingerprint).
Result<JobFilter> job_filter_of(const DeadFilter& filter);

// Groups the newest kMaxDeadCounted dead jobs of the queue of `filter`, whose state is dead; with a
// tag the newest kMaxDeadLooked that have it; of these, the ones that died at `since` or later.
// `payloads`: the queues whose messages may be shown. Errors: those of the read.
Result<DeadGroups> group_dead(const Store& store, const JobFilter& filter,
                              const Within& payloads = {}, WallTime since = {});

}  // namespace mainspring
