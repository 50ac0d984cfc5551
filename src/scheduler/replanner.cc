// Finds schedules whose next tick is wrong, and gives them the right one.
#include "scheduler/replanner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "model/schedule.h"
#include "scheduler/leader.h"

namespace mainspring {
namespace {

constexpr int kPage = 500;

}  // namespace

Replanner::Replanner(Broker& broker, Log& log, Registry& registry)
    : broker_(broker),
      log_(log),
      total_(registry.counter("mainspring_schedules_replanned_total",
                              "Schedules whose next tick was corrected after a change of time zone "
                              "rules or a jump of the clock.")) {
  (void)TimeZone::changes(zones_seen_);  // of an earlier object
  zones_.clear();
}

void Replanner::look_at_clock(Now now) {
  if (last_) {
    const WallTime expected = last_->wall + (now.instant - last_->instant);
    if (now.wall - expected > kJump) jumps_.push_back({expected, now.instant});
  }
  last_ = now;
  std::erase_if(jumps_, [&](const Jump& jump) { return now.instant - jump.at > kRemembered; });
  if (jumps_.size() > kMaxJumps) jumps_.erase(jumps_.begin());
  const auto back = std::find_if(jumps_.begin(), jumps_.end(), [&](const Jump& jump) {
    return now.wall - (jump.wall + (now.instant - jump.at)) <= kJump;
  });
  if (back == jumps_.end()) return;
  log_.warn(
      "the wall clock was ahead and is right again; schedules are planned again",
      {{"since", format_wall_time(back->wall)},
       {"for", format_duration(std::chrono::round<std::chrono::seconds>(now.instant - back->at))}});
  undecided_after_ = std::min(undecided_after_.value_or(back->wall), back->wall);
  jumps_.erase(back, jumps_.end());  // it is before the later ones too
}

Instant Replanner::look(Now now) {
  look_at_clock(now);
  if (now.instant >= zones_at_) {
    zones_at_ = now.instant + kZonesEvery;
    for (TimeZone::Change& change : TimeZone::changes(zones_seen_)) {
      log_.info("the rules of a time zone have changed; its schedules are planned again",
                {{"time_zone", change.name}});
      zones_.push_back(std::move(change));
    }
  }
  return zones_at_;
}

std::optional<Replanner::NewPlan> Replanner::plan(const ScheduleInfo& info, Now now) const {
  const Schedule& schedule = info.schedule;
  const bool due = info.next <= now.wall;  // decided as it was planned
  if (due || info.remaining == 0 || !info.problem.empty()) return std::nullopt;
  NextTick wanted{.nominal = info.next};
  std::string why;
  if (compare_all_ && info.next != WallTime::never()) {
    const WallTime fired = info.last_fired.value_or(WallTime());
    wanted = settled_tick(schedule, info.next, fired, now.wall);
    why = "the rules of " + schedule.time_zone + " have changed";
  }
  for (const TimeZone::Change& change : zones_) {
    if (schedule.cron.empty() || schedule.time_zone != change.name) continue;
    if (info.next == WallTime::never() || MS_MUTANT(zone_change_waits_for_a_tick)) continue;
    wanted = moved_tick(schedule, info.next, *change.old, now.wall);
    why = "the rules of " + change.name + " have changed";
    break;  // it was planned by the oldest rules
  }
  if (undecided_after_ && !MS_MUTANT(clock_glitch_stays)) {
    const NextTick right = next_tick(schedule, *undecided_after_);
    if (right.nominal < info.next) {
      wanted = right;
      why = "the clock was ahead";
    }
  }
  if (wanted.nominal == info.next) return std::nullopt;
  return NewPlan{
      wanted.nominal, wanted.fires_at,
      fmt::format("planned again: {}; the next run was {}", why, format_wall_time(info.next))};
}

void Replanner::submit(FireSchedule operation) {
  broker_.submit(operation, [this, operation](const OperationResult& result) {
    const auto* error = std::get_if<Error>(&result);
    if (error == nullptr) return total_.add(1);
    // A changed or removed schedule has a plan of its own; another leader has other duties.
    if (error->code == ErrorCode::conflict || error->code == ErrorCode::not_found) return;
    MutexLock lock(mutex_);
    failed_.push_back(operation);
  });
}

void Replanner::step(Now now, std::optional<Token> term) {
  if (!term) {  // the leader looks at its own clock and zones
    undecided_after_.reset();
    zones_.clear();
    compare_all_ = true;
    return;
  }
  const Fence fence{.lease = std::string(kLeadershipLease), .token = *term};
  std::vector<FireSchedule> again;
  {
    MutexLock lock(mutex_);
    again.swap(failed_);
  }
  for (FireSchedule& operation : again) {
    operation.fence = fence;
    submit(std::move(operation));
  }
  if (!undecided_after_ && zones_.empty() && !compare_all_) return;
  std::string after;
  for (bool more = true; more;) {
    const auto page = broker_.schedules(after, kPage);
    if (!page) return;  // the next step tries again
    for (const ScheduleInfo& info : *page) {
      auto made = plan(info, now);
      if (!made) continue;
      log_.info("planned a schedule again", {{"schedule", info.schedule.name}, {"why", made->why}});
      submit({.name = info.schedule.name,
              .version = info.version,
              .source = TickSource::schedule,
              .expected_next = info.next,
              .ticks = {{.nominal = now.wall, .count = 0, .fire = false, .reason = made->why}},
              .next = made->next,
              .next_fire = made->next_fire,
              .fence = fence});
    }
    more = page->size() == kPage;
    if (more) after = page->back().schedule.name;
  }
  undecided_after_.reset();
  zones_.clear();
  compare_all_ = false;
}

}  // namespace mainspring
