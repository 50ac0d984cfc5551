// What every store counts against kPageBytes, and how every store scopes idempotency keys.
#pragma once

#include <cstddef>
#include <string>

#include "store/operations.h"

namespace mainspring {

// Of its payloads. The rest is bounded by the number of jobs.
std::size_t listed_bytes(const Job& job);
std::size_t claimed_bytes(const ClaimedJob& job);

// Ids grow with created_at, but for clocks that were set back. By more than this, a search with a
// time window may miss jobs.
inline constexpr Duration kClockSlack = std::chrono::hours(1);
struct CreatedJob {
  JobId id = 0;
  WallTime at;
};
// An id from which on every job was created after `to`. `created(id)` finds the first job with that
// id or a later one, as std::optional<CreatedJob>; it is called about log2(newest) times.
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
// Every job that was created within [from, to) has an id in this range, as far as kClockSlack says.
template <class Created>
IdRange ids_of_window(JobId newest, const std::optional<WallTime>& from,
                      const std::optional<WallTime>& to, Created created) {
  IdRange range{.begin = 0, .end = newest + 1};
  if (to) range.end = end_of_window(newest, *to, created);
  if (from) range.begin = end_of_window(newest, *from - 2 * kClockSlack - Duration(1), created);
  return range;
}

// The name under which a store keeps an idempotency key: its queue, a line feed, the key. Requests
// for other queues never meet it. Of several queues: a digest of their names instead of the queue,
// which is no name of a queue.
std::string scoped_idempotency_key(const Enqueue& request);

}  // namespace mainspring
