// Job tokens: what a program that runs for a job shows to the server. They are signed and stored
// nowhere: a token names its queue, its end and the access token that asked for it.
//
//   msj_<payload as hex>.<HMAC-SHA-256 of the part before the dot, as hex>
//
// Without the access token that asked for it (revoked, expired), a job token is not valid either.
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
// The queue of job folders' runs, for which alone a token may name a folder.
inline constexpr std::string_view kFolderQueue = "host";

struct JobToken {
  std::string queue;
  std::string folder;        // of a run of a job folder; "" = none
  std::uint64_t issuer = 0;  // Caller::token_id of who asked for it; 0 = the server itself
  WallTime expires_at;       // whole seconds count

  // What it allows: to enqueue to its queue, and to see that queue's jobs and their results. A run
  // of a folder may start that folder's runs, and no other job of its queue.
  Scopes scopes() const;
  friend bool operator==(const JobToken&, const JobToken&) = default;
};

// Errors: invalid_argument (a queue or folder that ends in '*', which would be a pattern).
Result<Secret> sign_job_token(const JobToken& token, const Secret& key);
// nullopt: it is no job token, or not signed with this key. The end is for the caller to check.
std::optional<JobToken> read_job_token(std::string_view text, const Secret& key);

}  // namespace mainspring
