// JobTokens: job tokens of a server, asked for when a program starts and used for several of them.
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
  // A program without a time limit gets a token for so long at least.
  static constexpr Duration kLongRun = std::chrono::hours(12);

  // Both outlive it.
  JobTokens(Client& client, const Clock& clock) : client_(client), clock_(clock) {}

  // As ProgramAccess::token. From every thread. Errors: those of the server.
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
