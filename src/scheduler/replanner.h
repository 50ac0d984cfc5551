// Replanner: plans schedules again whose next tick was computed from something that has changed:
// the rules of their time zone (an update of tzdata, also while no server ran), or a wall clock
// that was ahead for a while.
//
//   clock   12:00 ──▶ jumps to +2 d ──▶ 4 s later right again      ticks after 12:00 are undecided
//
// A new plan is a FireSchedule without a run: its ledger row says why and which time it replaces.
// Ticks that ran while the clock was ahead do not run again: the store refuses them. A clock that
// does not return to where it would be without the jump, or later than kRemembered, is believed; a
// later jump is judged on its own.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "env/time_zone.h"
#include "store/operations.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;

class Replanner {
 public:
  Replanner(Broker& broker, Log& log, Registry& registry);

  static constexpr Duration kJump = std::chrono::seconds(10);  // more than clocks are slewed
  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr std::size_t kMaxJumps = 16;  // beyond, the oldest is believed
  static constexpr Duration kZonesEvery = std::chrono::seconds(30);

  // Looks at the clock, and at the zones every kZonesEvery. Returns when to call it again. From one
  // thread, on every node.
  Instant look(Now now);
  // After look(): submits what is to be planned again, if this node leads.
  void step(Now now, std::optional<Token> term);

 private:
  // Of one schedule.
  struct NewPlan {
    WallTime next, next_fire;
    std::string why;
  };
  void look_at_clock(Now now);
  std::optional<NewPlan> plan(const ScheduleInfo& info, Now now) const;
  void submit(FireSchedule operation);

  Broker& broker_;
  Log& log_;
  Counter& total_;
  std::optional<Now> last_;
  struct Jump {
    WallTime wall;  // the wall clock without it
    Instant at;
  };
  std::vector<Jump> jumps_;                  // by time
  std::optional<WallTime> undecided_after_;  // the clock is right again: to be planned from here
  std::size_t zones_seen_ = 0;
  Instant zones_at_;
  std::vector<TimeZone::Change> zones_;
  // Since it leads, this node has not compared all plans with its rules: they may have changed
  // while no server ran, or be others at the leader before.
  bool compare_all_ = true;
  Mutex mutex_;
  std::vector<FireSchedule> failed_ MS_GUARDED_BY(mutex_);  // to be repeated
};

}  // namespace mainspring
