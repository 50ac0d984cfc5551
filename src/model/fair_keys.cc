// Start-time fair queueing over limit keys.
#include "model/fair_keys.h"

#include <cmath>

#include "base/mutant.h"

namespace mainspring {

std::int64_t FairKeys::start(std::string_view key) const {
  const auto found = served_.find(key);
  const std::int64_t served = found == served_.end() ? 0 : found->second;
  if (MS_MUTANT(idle_key_saves_turns)) return served;
  return std::max(now_, served);
}

void FairKeys::give(std::string_view key, const KeyLimits& limits, int cost) {
  const auto weight = limits.weights.find(key);
  const bool has = weight != limits.weights.end() && !MS_MUTANT(weights_ignored);
  const std::int64_t at = start(key);
  served_.insert_or_assign(
      std::string(key), at + std::llround(cost * kShare / (has ? weight->second : kDefaultWeight)));
  if (!MS_MUTANT(queue_time_stays)) now_ = std::max(now_, at);
}

void FairKeys::forget() {
  std::erase_if(served_, [this](const auto& key) { return key.second <= now_; });
}

}  // namespace mainspring
