// ServiceTimes: how long attempts of a queue run, also while the queue is idle and after a restart.
//
//   attempts of the last five minutes, else the last ones seen, else the history of the store
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "store/store.h"

namespace mainspring {

struct ServiceTime {
  enum class Source : std::uint8_t { recent, history, prior };
  Duration mean = std::chrono::seconds(2), p50 = mean, p95 = mean;
  std::int64_t samples = 0;  // 0 = a prior: nothing is known
  Source source = Source::prior;
};
ServiceTime service_time_of(const TimeSketch& run, ServiceTime::Source source);

// Thread-safe. The store is read once for each queue without recent attempts.
class ServiceTimes {
 public:
  static constexpr std::size_t kMaxQueues = 1000;  // beyond, all are forgotten
  static constexpr Duration kFirstRead = std::chrono::hours(24 * 7);

  // `recent`: nullptr = no counts. Reads the store only if nothing is known of the queue.
  ServiceTime of(const Store& store, const std::string& queue, const RecentCount* recent,
                 WallTime now) MS_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, ServiceTime, std::less<>> known_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
