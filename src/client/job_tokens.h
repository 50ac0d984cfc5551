// JobTokens: job tokens of a server, requested when a program starts and reused by later programs.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/secret.h"
#include "client/client.h"
#include "env/clock.h"

namespace mainspring {

class JobTokens {
 public:
  // Minimum lifetime of the token for a program without a time limit.
  static constexpr Duration kLongRun = std::chrono::hours(12);

  // Both outlive it.
  JobTokens(Client& client, const Clock& clock) : client_(client), clock_(clock) {}

  // See ProgramAccess::token. Thread-safe. Errors: those of the server.
  Result<Secret> get(const std::string& queue, const std::string& folder, Duration limit);

 private:
  static constexpr std::size_t kMaxKept = 1000;
  struct Kept {
    Secret token;
    Instant good_until;
  };
  Client& client_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, Kept> kept_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
