// A filter's output becomes the jobs of the next filter, in the transaction that completes its job.
//
//   {"file":"a.jpg"} ─▶ filter ─▶ {"width":200} ─▶ next filter: {"file":"a.jpg","width":200}
//                                 [{…},{…}]     ─▶ two jobs
//                                 null, nothing ─▶ none: the item is dropped
//
// The alternative not taken, to enqueue first and complete then, would post twice whenever a worker
// dies in between. Here it is the completion that posts: one that is stale posts nothing, one that
// is repeated nothing again. The filter itself may run twice, as every handler may.
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
  // Members of an item's args that the output does not have go on with it.
  bool carries = true;
  std::optional<Duration> timeout;  // of its attempts; nullopt = the default of jobs
};

// The jobs that `output`, a filter's result, makes of `job`: with its correlation id, or else its
// id in decimal; its headers, tags, priority and session. Errors: invalid_argument (the output is
// neither an object nor a list of objects nor nothing), too_large (over kMaxNextJobs).
Result<std::vector<NewJob>> pass_on(const ClaimedJob& job, std::string_view output,
                                    const PipeTo& to);

// Runs `filter` and passes on what it completes with; the result is then {"passed_on": how many}.
// An output that cannot be passed on makes the job dead, reason "bad_output".
Handler piped(Handler filter, PipeTo to);

}  // namespace mainspring
