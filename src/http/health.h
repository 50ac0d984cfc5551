// Health: the answers to health probes.
//
//   /livez            do the loops turn? Never blocks, reads nothing: a ping is sent, and the next
//                     probe checks whether it came back.
//   /healthz?verbose  every part. Evaluated at most once in kHealthKept, for any number of callers.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "http/health_part.h"
#include "mainspring/result.h"

namespace mainspring {

class Broker;
class HostControl;
class Store;

namespace http {

inline constexpr Duration kHealthKept = std::chrono::seconds(1);
// A loop that has not turned for this long is stuck; a write that takes this long has failed.
inline constexpr Duration kStuckAfter = std::chrono::seconds(10);
// After a commit more recent than this, no probe is written.
inline constexpr Duration kWriteProbeEvery = std::chrono::seconds(10);
// How long a change of the clock is reported.
inline constexpr Duration kClockSetShown = std::chrono::hours(1);

class Health {
 public:
  struct Report {
    PartState state = PartState::ok;
    std::vector<HealthPart> parts;
    std::string body;  // {"status", "parts": […]}
  };

  // `broker`, `store` and `clock` outlive it; `more` are parts of other modules.
  Health(Broker& broker, const Store& store, const Clock& clock,
         std::vector<std::function<HealthPart()>> more);
  ~Health();

  // A function that calls `turned` when the loop has turned; set before the first probe.
  using Ping = std::function<void(std::function<void()> turned)>;
  void watch(std::string loop, Ping ping) MS_EXCLUDES(mutex_);

  // The loop that does not respond, and since when; "" = none is known.
  std::string stuck() MS_EXCLUDES(mutex_);
  // Reads the store, and may wait up to a second for a commit: call it on a reader thread. `host`
  // may be nullptr.
  std::shared_ptr<const Report> report(HostControl* host) MS_EXCLUDES(mutex_);
  // The housekeeping steps that fail; "" = none.
  std::string housekeeping() const;
  // Why a core part failed in the last report; "" = none failed.
  std::string failure() const MS_EXCLUDES(mutex_);

 private:
  struct Loop {
    std::string name;
    Ping ping;
    Instant asked;  // time of the current or last ping
    bool under_way = false;
  };
  struct Shared;  // receives late answers
  HealthPart loops_part();
  HealthPart store_part();
  HealthPart clock_part() MS_EXCLUDES(mutex_);
  HealthPart leader_part() const;

  Broker& broker_;
  const Store& store_;
  const Clock& clock_;
  const std::vector<std::function<HealthPart()>> more_;
  const std::shared_ptr<Shared> shared_;
  mutable Mutex mutex_;
  std::shared_ptr<const Report> last_ MS_GUARDED_BY(mutex_);
  Instant reported_at_ MS_GUARDED_BY(mutex_);
  bool reporting_ MS_GUARDED_BY(mutex_) = false;
  std::optional<Now> clock_seen_ MS_GUARDED_BY(mutex_);
  std::optional<Instant> clock_set_at_ MS_GUARDED_BY(mutex_);
  Duration clock_set_by_ MS_GUARDED_BY(mutex_){0};
};

}  // namespace http
}  // namespace mainspring
