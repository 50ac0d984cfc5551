// Singletons: at most one job with a name runs at once in the whole system, under a lease.
//
// A job that finds the lease taken could wait in its slot, and starve other jobs. Or it could be
// returned at once, and write to the store a few times a second. Both are done within limits: one
// job per name waits for a second, parked at the server, which costs nothing and gets it the lease
// in the same commit as the release. The others are returned, for longer the more of them there
// are.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "base/mutex.h"
#include "worker/auto_renew_lease.h"

namespace mainspring {

// "report/{customer}" with args {"customer":"Ann B"} is "report/Ann:20B": bytes that are not
// letters, digits, '.', '_' or '-' become ":hh", so that different values give different names. A
// name that would be too long ends with a hash. Errors: invalid_argument (the field is missing, or
// not a string or number).
Result<std::string> singleton_name(std::string_view pattern, const std::string& args);
// Errors: invalid_argument (braces, characters that are not allowed in names).
Result<void> check_singleton(std::string_view pattern);

class Singletons {
 public:
  Singletons(Jobs& jobs, const Clock& clock, Random& random, Duration ttl, int slots)
      : jobs_(jobs),
        clock_(clock),
        random_(random),
        ttl_(ttl),
        max_waiting_(std::max(1, slots / 4)) {}

  // The lease, or how long to return the job for. Errors: as acquire, except lease_held.
  using Entry = std::variant<AutoRenewLease, Duration>;
  Result<Entry> enter(const std::string& name, std::function<void()> on_lost, std::stop_token stop);

 private:
  static constexpr std::size_t kMaxNames = 10'000;  // beyond, all state about names is dropped
  struct Name {
    bool waiting = false;
    int given_back = 0;  // consecutive, since a job here had the lease
  };
  bool begin(const std::string& name) MS_EXCLUDES(mutex_);  // may it wait?
  Duration end(const std::string& name, bool waited, bool held) MS_EXCLUDES(mutex_);

  Jobs& jobs_;
  const Clock& clock_;
  Random& random_;
  const Duration ttl_;
  const int max_waiting_;
  Mutex mutex_;
  std::map<std::string, Name> names_ MS_GUARDED_BY(mutex_);
  int waiting_ MS_GUARDED_BY(mutex_) = 0;
};

}  // namespace mainspring
