// Sizes of jobs in answers; the scope of idempotency keys.
#include "store/bounds.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/mutant.h"
#include "env/digest.h"
#include "model/callback.h"

namespace mainspring {
namespace {

// Omitted args count one eighth: a store may have to read them to know their size.
constexpr std::size_t kOmittedPart = 8;

}  // namespace

std::size_t listed_bytes(const Job& job) {
  std::size_t bytes = job.args.size() + job.headers.size() + job.description.size() +
                      job.result.size() + job.checkpoint.size() + job.args_omitted / kOmittedPart;
  for (const FollowUp& follow_up : job.follow_ups) bytes += follow_up.data.size();
  return bytes;
}

std::size_t claimed_bytes(const ClaimedJob& job) {
  return job.args.size() + job.headers.size() + job.checkpoint.size() + job.session_state.size();
}

std::int64_t reserved_for(const Enqueue& request) {
  const bool own = std::all_of(request.jobs.begin(), request.jobs.end(), [](const NewJob& job) {
    return job.queue.starts_with(kReservedQueues);
  });
  return own && !MS_MUTANT(full_store_refuses_its_own) ? kReservedLiveJobs : 0;
}

std::string scoped_idempotency_key(const Enqueue& request) {
  if (MS_MUTANT(idempotency_keys_are_global)) return request.idempotency_key;
  std::set<std::string_view> queues;
  for (const NewJob& job : request.jobs) queues.insert(job.queue);
  std::string scope;
  if (queues.size() == 1) {
    scope = *queues.begin();
  } else {
    std::string names;
    for (const std::string_view queue : queues) names.append(queue).append("\n");
    scope = "*" + to_hex(sha256(names));
  }
  return scope + "\n" + request.idempotency_key;
}

}  // namespace mainspring
