// VirtualClock: real time with a wall clock that can be moved ahead.
//
// Only the wall clock moves. Due times, schedules, expiry and retention use it. Steady time, which
// connections, waits and leases use, stays real: a waiting request does not end because a test
// moved the clock. TestControl ends leases itself when an advance passes their end.
#pragma once

#include <atomic>

#include "env/clock.h"

namespace mainspring {

// From every thread.
class VirtualClock final : public Clock {
 public:
  // `base` outlives the clock.
  explicit VirtualClock(const Clock& base) : base_(base) {}

  Now now() const override {
    Now now = base_.now();
    now.wall = now.wall + ahead();
    return now;
  }
  // How far the wall clock is ahead of `base`.
  Duration ahead() const { return Duration(ahead_us_.load()); }
  void set_ahead(Duration ahead) { ahead_us_ = ahead.count(); }
  // Moves the wall clock to `time` unless it is there already. Never back.
  void move_to(WallTime time) {
    const Duration ahead = time - base_.now().wall;
    if (ahead > this->ahead()) set_ahead(ahead);
  }

 private:
  const Clock& base_;
  std::atomic<std::int64_t> ahead_us_{0};
};

}  // namespace mainspring
