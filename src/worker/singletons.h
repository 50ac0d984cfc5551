// Singletons: jobs of which one at a time may run in the whole system hold a lease while they run.
//
// Who finds the lease taken could wait in its slot (and starve other jobs) or give the job back at
// once (and write to the store a few times a second for each). Both, with bounds: one job per name
// waits for a second, parked at the server, which costs nothing and gives it the lease in the very
// commit of the release; the others are given back, the longer the more of them there are.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "base/mutex.h"
#include "worker/auto_renew_lease.h"

namespace mainspring {

// "report/{customer}" with args {"customer":"Ann B"} is "report/Ann:20B": bytes that are not
// letters, digits, '.', '_' or '-' become ":hh", so that different values give different names; a
// name that would be too long ends in a hash. Errors: invalid_argument (the field is not there, or
// no string or number).
Result<std::string> singleton_name(std::string_view pattern, const std::string& args);
// Errors: invalid_argument (braces, characters that no name has).
Result<void> check_singleton(std::string_view pattern);

class Singletons {
 public:
  Singletons(Jobs& jobs, const Clock& clock, Random& random, Duration ttl, int slots)
      : jobs_(jobs),
        clock_(clock),
        random_(random),
        ttl_(ttl),
        max_waiting_(std::max(1, slots / 4)) {}

  // The lease, or for how long to give the job back. Errors: as acquire, but for lease_held.
  using Entry = std::variant<AutoRenewLease, Duration>;
  Result<Entry> enter(const std::string& name, std::function<void()> on_lost, std::stop_token stop);

 private:
  static constexpr std::size_t kMaxNames = 10'000;  // beyond, what is known of them is forgotten
  struct Name {
    bool waiting = false;
    int given_back = 0;  // in a row, since somebody here had the lease
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
