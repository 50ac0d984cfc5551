// Pages of a search: the record terms by the store, the payload terms here.
#pragma once

#include "store/store.h"

namespace mainspring {

// What one page of a search reads at most, and a little more: it ends with what exceeds a bound.
inline constexpr std::int64_t kMaxSearchedJobs = 20'000;
inline constexpr std::size_t kMaxWholeJobs = 5'000;        // of these, read with their payloads
inline constexpr std::size_t kMaxSearchedBytes = 8 << 20;  // of args, results and errors
// Jobs of one workflow or schedule that a search looks at: the newest.
inline constexpr std::size_t kMaxNamedJobs = 20'000;

// Replaces the terms workflow: and schedule: by the ids of their jobs. What does not exist has
// none. Errors: those of the reads.
Result<JobFilter> resolve_search(const Store& store, JobFilter filter);
// As Store::list, with every term of the filter's query. Resolves it first. Fills `of`.
Result<JobPage> search_jobs(const Store& store, const JobFilter& filter, int limit, JobId before);

}  // namespace mainspring
