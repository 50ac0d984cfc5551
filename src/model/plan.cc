// Decides what happens to the due ticks of a schedule. From the oldest to the newest:
//
//   next      skip_before       now - window     cap / last late        now - grace          now
//    │ paused, one row │  too old, one row │ folded or over the cap │ fire, past due │ fire │
//
// One or two calendar steps find each border; only the ticks that fire are walked.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "model/schedule.h"
#include "model/ticks.h"

namespace mainspring {
namespace {

constexpr Duration kTickle(1);

class Planner {
 public:
  Planner(const ScheduleInfo& info, WallTime now)
      : info_(info), schedule_(info.schedule), ticks_(info.schedule), now_(now) {}

  FiringPlan run() {
    if (info_.next == WallTime::never() || now_ < info_.next_fire) {
      return {.next = {info_.next, info_.next_fire, ""}};
    }
    if (!ticks_.problem().empty()) {
      return {.next = {info_.next, now_ + kUnknownZoneRetry, ticks_.problem()}};
    }
    const Duration jitter = jitter_of(schedule_);
    cutoff_ = std::max(now_ - jitter, info_.next);
    at_ = info_.next;
    if (at_ < info_.skip_before && !MS_MUTANT(pause_row_missing)) {
      skip_until(info_.skip_before - kTickle,
                 info_.skip_reason.empty() ? "paused" : info_.skip_reason);
    }
    decide_late();
    while (at_ <= cutoff_) fire(false);
    plan_.next = {.nominal = at_};
    if (at_ != WallTime::never()) {
      plan_.next.fires_at = at_ + jitter;
      plan_.next.note = ticks_.note(at_);
    }
    plan_.steps = ticks_.steps();
    return std::move(plan_);
  }

 private:
  // The last tick in [at_, t]; nullopt = none.
  std::optional<WallTime> last_until(WallTime t) const {
    t = std::min(t, cutoff_);
    if (t < at_) return std::nullopt;
    const std::optional<WallTime> found = ticks_.last_until(t);
    // A planned tick stays due even if the calendar has changed since it was planned.
    return found && *found > at_ ? found : at_;
  }
  void go_on_after(WallTime t) { at_ = ticks_.next_after(t).value_or(WallTime::never()); }

  // One row for all ticks from at_ to t.
  void skip_until(WallTime t, const std::string& reason) {
    const std::optional<WallTime> last = last_until(t);
    if (!last) return;
    Tick row{.nominal = at_, .fire = false, .reason = reason, .note = ticks_.note(at_)};
    if (*last != at_) {
      row.until = last;
      row.count = ticks_.count(at_, *last);
    }
    plan_.ticks.push_back(std::move(row));
    go_on_after(*last);
  }
  void fire(bool past_due) {
    plan_.ticks.push_back({.nominal = at_, .past_due = past_due, .note = ticks_.note(at_)});
    go_on_after(at_);
  }

  void decide_late() {
    const WallTime late_until = cutoff_ - kMisfireGrace - kTickle;  // later than the grace
    if (schedule_.misfire == Misfire::skip) return skip_until(late_until, "missed: policy skip");
    if (schedule_.misfire_window < kForever && !MS_MUTANT(misfire_window_ignored)) {
      const WallTime old_until = cutoff_ - schedule_.misfire_window - kTickle;
      skip_until(std::min(old_until, late_until),
                 "missed: later than " + format_duration(schedule_.misfire_window));
    }
    const std::optional<WallTime> last = last_until(late_until);
    if (!last) return;
    if (schedule_.misfire == Misfire::once) {
      if (*last != at_) {
        skip_until(*last - kTickle, "missed: folded into " + format_wall_time(*last));
      }
      return fire(true);
    }
    WallTime first = *last;  // first tick that fires
    for (int n = 1; n < schedule_.misfire_cap && first > at_; ++n) {
      first = last_until(first - kTickle).value_or(at_);
    }
    if (first > at_ && !MS_MUTANT(misfire_cap_forgets_rows)) {
      skip_until(first - kTickle, fmt::format("missed: over the cap of {}", schedule_.misfire_cap));
    }
    at_ = first;
    while (at_ <= *last) fire(true);
  }

  const ScheduleInfo& info_;
  const Schedule& schedule_;
  const Ticks ticks_;
  const WallTime now_;
  WallTime cutoff_;  // ticks up to here are due
  WallTime at_;      // the first undecided tick; never = none
  FiringPlan plan_;
};

}  // namespace

FiringPlan plan_firing(const ScheduleInfo& info, WallTime now) {
  return Planner(info, now).run();
}

}  // namespace mainspring
