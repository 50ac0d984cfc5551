// A filter's output becomes jobs of the next filter, in the transaction that completes its job.
//
//   {"file":"a.jpg"} ─▶ filter ─▶ {"width":200} ─▶ next filter: {"file":"a.jpg","width":200}
//                                 [{…},{…}]     ─▶ two jobs
//                                 null, nothing ─▶ no job: the item is dropped
//
// Alternative not taken: enqueueing first and completing then would enqueue twice when a worker
// dies in between. Here the completion enqueues: a stale completion enqueues nothing, and a
// repeated one does not enqueue again. The filter itself may run twice, like every handler.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/worker.h"

namespace mainspring {

// The next filter.
struct PipeTo {
  std::string queue;
  std::string kind;
  // Members of an item's args that the output does not have are added to it.
  bool carries = true;
  std::optional<Duration> timeout;  // of its attempts; nullopt = the default
};

// The jobs that `output`, a filter's result, creates from `job`: with its correlation id, or else
// its id in decimal; its headers, tags, priority and session. Errors: invalid_argument (the output
// is neither an object, a list of objects nor empty), too_large (over kMaxNextJobs).
Result<std::vector<NewJob>> pass_on(const ClaimedJob& job, std::string_view output,
                                    const PipeTo& to);

// Runs `filter` and passes its result on; the result is then {"passed_on": count}. An output that
// cannot be passed on makes the job dead, reason "bad_output".
Handler piped(Handler filter, PipeTo to);

}  // namespace mainspring
