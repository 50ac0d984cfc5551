// Job tokens: the credential of a program that runs for a job. A job token is signed and not
// stored. It names its queue, its expiry and the access token that requested it.
//
//   msj_<payload as hex>.<HMAC-SHA-256 of the part before the dot, as hex>
//
// A job token becomes invalid together with the access token that requested it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "mainspring/result.h"
#include "mainspring/time.h"
#include "model/access.h"

namespace mainspring {

inline constexpr std::string_view kJobTokenPrefix = "msj_";
inline constexpr std::size_t kMaxJobTokenBytes = 1024;
inline constexpr Duration kMinJobTokenLifetime = std::chrono::minutes(1);
inline constexpr Duration kMaxJobTokenLifetime = std::chrono::hours(24);
// The queue of job folder runs. Only a token for this queue may name a folder.
inline constexpr std::string_view kFolderQueue = "host";

struct JobToken {
  std::string queue;
  std::string folder;        // the job folder of the run; "" = none
  std::uint64_t issuer = 0;  // Caller::token_id of the requester; 0 = the server itself
  WallTime expires_at;       // whole seconds count

  // Allows enqueueing to its queue, and reading that queue's jobs and results. The token of a job
  // folder's run may start runs of that folder, and no other jobs of its queue.
  Scopes scopes() const;
  friend bool operator==(const JobToken&, const JobToken&) = default;
};

// Errors: invalid_argument (a queue or folder that ends in '*' would be a pattern).
Result<Secret> sign_job_token(const JobToken& token, const Secret& key);
// nullopt: not a job token, or not signed with this key. The caller checks the expiry.
std::optional<JobToken> read_job_token(std::string_view text, const Secret& key);

}  // namespace mainspring
