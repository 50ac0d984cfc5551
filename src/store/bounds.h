// How stores count answer sizes against kPageBytes, and how stores scope idempotency keys.
#pragma once

#include <cstddef>
#include <string>

#include "store/operations.h"

namespace mainspring {

// The bytes of the job's payloads. Other fields need no bound: the number of jobs bounds them.
std::size_t listed_bytes(const Job& job);
std::size_t claimed_bytes(const ClaimedJob& job);

// Ids grow with created_at unless a clock was set back. If a clock was set back by more than this,
// a search with a time window may miss jobs.
inline constexpr Duration kClockSlack = std::chrono::hours(1);
struct CreatedJob {
  JobId id = 0;
  WallTime at;
};
// Returns an id such that every job with this id or a later one was created after `to`.
// `created(id)` finds the first job with that id or a later one, as std::optional<CreatedJob>; it
// is called about log2(newest) times.
template <class Created>
JobId end_of_window(JobId newest, WallTime to, Created created) {
  JobId low = 1, high = newest + 1;
  while (low < high) {
    const JobId middle = low + (high - low) / 2;
    const std::optional<CreatedJob> found = created(middle);
    if (!found || found->id >= high || found->at > to + kClockSlack) {
      high = middle;
    } else {
      low = found->id + 1;
    }
  }
  return high;
}

struct IdRange {
  JobId begin = 0, end = 0;  // begin <= id < end
};
// Returns a range that holds the ids of all jobs created in [from, to), within kClockSlack.
template <class Created>
IdRange ids_of_window(JobId newest, const std::optional<WallTime>& from,
                      const std::optional<WallTime>& to, Created created) {
  IdRange range{.begin = 0, .end = newest + 1};
  if (to) range.end = end_of_window(newest, *to, created);
  if (from) range.begin = end_of_window(newest, *from - 2 * kClockSlack - Duration(1), created);
  return range;
}

// The engine's own requests, such as bulk operations, free room: they may exceed max_live_jobs by
// this much, and use the disk's reserve.
inline constexpr std::int64_t kReservedLiveJobs = 1000;
// How much these new jobs may exceed max_live_jobs: kReservedLiveJobs or 0.
std::int64_t reserved_for(const Enqueue& request);

// The name under which a store keeps an idempotency key: queue, line feed, key. So keys of
// different queues never collide. For a request with several queues, a digest of the queue names
// replaces the queue; no queue has such a name.
std::string scoped_idempotency_key(const Enqueue& request);

}  // namespace mainspring
