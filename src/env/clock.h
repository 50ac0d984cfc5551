// Clock: the only place that reads the time. Engine code gets the time as an argument; the caller
// of a step (the commit loop, a test, the simulator) reads the clock.
#pragma once

#include "mainspring/time.h"

namespace mainspring {

class Clock {
 public:
  virtual ~Clock() = default;
  // Both clocks at one moment. Callable from every thread.
  virtual Now now() const = 0;
};

// CLOCK_BOOTTIME (continues while the machine sleeps) and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  Now now() const override;
};

// A clock that only moves when it is set. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(
      WallTime start = WallTime::from_ms(1'767'225'600'000)) {  // 2026-01-01T00:00:00Z
    now_.wall = start;
    now_.instant = Instant::from_ms(1'000'000);
  }
  Now now() const override { return now_; }
  void advance(Duration d) {
    now_.instant = now_.instant + d;
    now_.wall = now_.wall + d;
  }
  // Simulates a change of the wall clock; steady time continues as before.
  void step_wall(Duration d) { now_.wall = now_.wall + d; }

 private:
  Now now_;
};

}  // namespace mainspring
