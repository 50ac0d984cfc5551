// Continuous timers: one run of a timer is one job. This is its handler.
//
//   C9 slot ─▶ lease "timer/<name>" ─▶ ┌ schedule: paused? (C4)  near its end? (C1 to C3) ┐
//    (a standby shares its first's)  ▲    │ the standby's time? (C10)                           │
//          a standby waits here ─────┘    └── batch (C5) ── error? (C6) ── nothing? idle ◀───┘
//
// The kill switch, the timeout and its override are read before every batch, so that a change takes
// effect during a run. Every end except the kill switch and a cancel ensures another run: the
// existing standby, or a wake.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/timer.h"
#include "mainspring/worker.h"
#include "telemetry/log.h"

namespace mainspring {

// Limits the timers that run in this process: a number of kinds, and for each kind one timer with
// its standby. Waiting timers enter by priority (0 first), then by age.
class TimerSlots {
 public:
  explicit TimerSlots(int slots) : slots_(slots) {}
  void limit(int slots) MS_EXCLUDES(mutex_);
  // The place of one run; released by the destructor.
  class Place {
   public:
    Place(TimerSlots& slots, std::string kind) : slots_(&slots), kind_(std::move(kind)) {}
    Place(Place&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)), kind_(std::move(other.kind_)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    TimerSlots* slots_;
    std::string kind_;
  };
  // Waits up to `wait` for a place. nullopt = none was free in time, or `stop` was requested.
  std::optional<Place> enter(const std::string& kind, const std::string& name, int priority,
                             Duration wait, const std::stop_token& stop, const Clock& clock);
  int waiting() MS_EXCLUDES(mutex_);  // timers that wait to enter

 private:
  struct Kind {
    std::string name;  // the timer that holds it
    int runs = 0;
  };
  struct Waiter {
    std::string kind, name;
    int priority = 0;
    std::uint64_t order = 0;
  };
  bool may_enter(const std::string& kind, const std::string& name) const MS_REQUIRES(mutex_);
  bool is_first(const Waiter& waiter) const MS_REQUIRES(mutex_);
  void leave(const std::string& kind) MS_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  int slots_ MS_GUARDED_BY(mutex_);
  std::uint64_t last_order_ MS_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Kind> kinds_ MS_GUARDED_BY(mutex_);
  std::vector<Waiter> waiters_ MS_GUARDED_BY(mutex_);
};

// C2: strictly less than the margin is left.
bool reaching_timeout(Duration timeout, Duration margin, Duration ran);
// C1: the override, if there is one.
Duration effective_timeout(const ScheduleInfo& info);

// The handler of a timer's jobs. All arguments outlive it.
Handler timer_handler(Jobs& jobs, const Clock& clock, Random& random, TimerSlots& slots,
                      ProcessBatch process, TimerOptions options);

}  // namespace mainspring
