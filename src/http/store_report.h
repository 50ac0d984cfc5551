// StoreReport: the size of the store and its jobs, for GET /v1/store. The store is asked at most
// once in kStoreReportKept, however many callers ask. All calls are safe from every thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/result.h"
#include "store/store_size.h"

namespace mainspring {

class Broker;

namespace http {

inline constexpr Duration kStoreReportKept = std::chrono::seconds(10);

class StoreReport {
 public:
  struct State {
    StoreSize size;
    std::optional<std::int64_t> disk_free_bytes;  // of the disk that the store is on
    std::int64_t jobs = 0, live = 0, finished = 0;
  };

  // Both outlive it. `size` may be empty: then nothing is known of the size.
  StoreReport(Broker& broker, const Clock& clock, std::function<Result<StoreSize>()> size)
      : broker_(broker), clock_(clock), size_(std::move(size)) {}

  // Reads the store, unless the last answer is new enough: on a reader thread. Callers that come
  // while another one reads get the last answer. Errors: those of the store.
  Result<std::shared_ptr<const State>> get() MS_EXCLUDES(mutex_);

 private:
  Result<State> read() const;

  Broker& broker_;
  const Clock& clock_;
  const std::function<Result<StoreSize>()> size_;
  Mutex mutex_;
  std::shared_ptr<const State> last_ MS_GUARDED_BY(mutex_);
  Instant read_at_ MS_GUARDED_BY(mutex_);
  bool reading_ MS_GUARDED_BY(mutex_) = false;
};

}  // namespace http
}  // namespace mainspring
