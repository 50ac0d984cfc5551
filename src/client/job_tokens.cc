// Requests twice the needed lifetime, so that later programs can use the same token.
#include "client/job_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/access_shapes.h"
#include "client/calls.h"
#include "model/job_token.h"

namespace mainspring {
namespace {

constexpr Duration kMargin = std::chrono::minutes(5);  // for requests of a program after its limit
constexpr Duration kShortest = std::chrono::hours(1);

}  // namespace

Result<Secret> JobTokens::get(const std::string& queue, const std::string& folder, Duration limit) {
  const Duration needed = limit >= kLongRun - kMargin ? kLongRun : limit + kMargin;
  const std::pair<std::string, std::string> key(queue, folder);
  {
    MutexLock lock(mutex_);
    const auto found = kept_.find(key);
    const Instant until = clock_.now().instant + needed;
    if (found != kept_.end() && found->second.good_until >= until) return found->second.token;
  }
  std::string body;
  encode_job_token_request(
      {.lifetime = std::clamp<Duration>(2 * needed, kShortest, kMaxJobTokenLifetime),
       .folder = folder},
      body);
  const Instant asked = clock_.now().instant;
  MS_TRY_ASSIGN(
      const std::string answer,
      client_.request("POST", fmt::format("/v1/queues/{}/job_token", percent_encode(queue)), body));
  MS_TRY_ASSIGN(JobTokenAnswer made, decode_job_token(answer));
  MutexLock lock(mutex_);
  if (kept_.size() >= kMaxKept) kept_.clear();
  kept_[key] = {made.token, asked + made.expires_in};
  return std::move(made.token);
}

}  // namespace mainspring
