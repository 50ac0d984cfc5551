// Pages of a search: the store matches the record terms, this module the payload terms.
#pragma once

#include "store/store.h"

namespace mainspring {

// Work limits of one page of a search. The record that exceeds a limit is the last one.
inline constexpr std::int64_t kMaxSearchedJobs = 20'000;
inline constexpr std::size_t kMaxWholeJobs = 5'000;        // of these, read with their payloads
inline constexpr std::size_t kMaxSearchedBytes = 8 << 20;  // of args, results and errors
// After this time the page ends with the current read.
inline constexpr Duration kMaxSearchTime = std::chrono::milliseconds(20);
// Jobs of one workflow or schedule that a search examines: the newest.
inline constexpr std::size_t kMaxNamedJobs = 20'000;

// Replaces the terms workflow: and schedule: by the ids of their jobs; an unknown one has none.
// Errors: those of the reads.
Result<JobFilter> resolve_search(const Store& store, JobFilter filter);
// As Store::list, with every term of the filter's query. Resolves it first. Fills `of`.
Result<JobPage> search_jobs(const Store& store, const JobFilter& filter, int limit, JobId before);

}  // namespace mainspring
