// A bounded set that drops its oldest entries.
#include "callbacks/gone_receivers.h"

#include <fmt/format.h>

namespace mainspring {
namespace {

std::string key_of(JobId job, const std::string& url) {
  return fmt::format("{} {}", job, url);
}

}  // namespace

void GoneReceivers::add(JobId job, const std::string& url) {
  MutexLock lock(mutex_);
  std::string key = key_of(job, url);
  if (!known_.insert(key).second) return;
  order_.push_back(std::move(key));
  if (order_.size() <= kMost) return;
  known_.erase(order_.front());
  order_.pop_front();
}

bool GoneReceivers::has(JobId job, const std::string& url) const {
  MutexLock lock(mutex_);
  return known_.contains(key_of(job, url));
}

}  // namespace mainspring
