// Sums due jobs by hour.
#include "store/store.h"

namespace mainspring {

void DueCounter::add(std::int64_t hour, std::int64_t examined, bool counts) {
  hours_[hour] += counts ? examined : 0;
  examined_ += examined;
}

DueHours DueCounter::hours() const {
  constexpr std::int64_t kHour = 3'600'000'000;
  DueHours out{.truncated = examined_ >= kMaxDueCounted};
  for (const auto& [hour, jobs] : hours_) {
    const bool incomplete = out.truncated && hour == hours_.rbegin()->first;
    if (jobs > 0 && !incomplete) out.hours.push_back({WallTime::from_us(hour * kHour), jobs});
  }
  return out;
}

}  // namespace mainspring
