// GoneReceivers: receivers that have answered 410, and for which job.
//
// In memory, of this server, the newest only: a receiver that was dropped is asked again, and
// answers again.
#pragma once

#include <deque>
#include <string>
#include <unordered_set>

#include "base/mutex.h"
#include "mainspring/job.h"

namespace mainspring {

// Safe from every thread.
class GoneReceivers {
 public:
  static constexpr std::size_t kMost = 10'000;

  void add(JobId job, const std::string& url) MS_EXCLUDES(mutex_);
  bool has(JobId job, const std::string& url) const MS_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::unordered_set<std::string> known_ MS_GUARDED_BY(mutex_);
  std::deque<std::string> order_ MS_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace mainspring
