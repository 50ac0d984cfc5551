// Validation of schedules, and the times of their ticks. plan.cc decides what happens to due ticks.
#include "model/schedule.h"

#include <fmt/format.h>

#include <tuple>

#include "base/fnv.h"
#include "model/ticks.h"

namespace mainspring {
namespace {

Result<void> check_template(const NewJob& job) {
  MS_TRY(validate(job, "job."));
  if (job.run_at)
    return invalid("job.run_at", "job.run_at: must not be given: a tick has its time");
  if (job.delay) return invalid("job.delay", "job.delay: must not be given: a tick has its time");
  if (job.unique) {
    return invalid("job.unique",
                   "job.unique: must not be given: \"overlap\" sets what happens while an earlier "
                   "job has not ended");
  }
  if (!job.session.empty()) {
    return invalid("job.session",
                   "job.session: must not be given: \"overlap\" sets the order of its jobs");
  }
  return {};
}

Result<void> check_when(const Schedule& schedule) {
  const int given = static_cast<int>(!schedule.cron.empty()) +
                    static_cast<int>(schedule.every != Duration(0)) +
                    static_cast<int>(schedule.at.has_value());
  if (given != 1) {
    return invalid("cron",
                   fmt::format("cron, every, at: {} are given: must be exactly one", given));
  }
  if (!schedule.cron.empty()) MS_TRY(Cron::parse(schedule.cron));
  if (schedule.every != Duration(0) && (schedule.every < kMinEvery || schedule.every > kMaxEvery)) {
    return invalid(
        "every",
        fmt::format("every {}: must be {} to {}",
                    schedule.every < Duration(0) ? "less than 0" : format_duration(schedule.every),
                    format_duration(kMinEvery), format_duration(kMaxEvery)));
  }
  MS_TRY(TimeZone::find(schedule.time_zone));
  const auto& [at, start, end] = std::tie(schedule.at, schedule.start_at, schedule.end_at);
  if (start && end && *start >= *end) {
    return invalid("end_at", fmt::format("end_at {}: must be after start_at {}",
                                         format_wall_time(*end), format_wall_time(*start)));
  }
  if (at && ((start && *at < *start) || (end && *at >= *end))) {
    return invalid("at", fmt::format("at {}: must not be before start_at, and before end_at",
                                     format_wall_time(*at)));
  }
  return {};
}

Result<void> check_policies(const Schedule& schedule) {
  if (schedule.misfire_window <= Duration(0)) {
    return invalid("misfire_window", "misfire_window: must be more than 0, or \"none\"");
  }
  if (schedule.misfire_cap < 1 || schedule.misfire_cap > kMaxMisfires) {
    return invalid("misfire_cap", fmt::format("misfire_cap {}: must be 1 to {}",
                                              schedule.misfire_cap, kMaxMisfires));
  }
  if (schedule.jitter < Duration(0) || schedule.jitter > kMaxJitter) {
    return invalid("jitter", fmt::format("jitter: must be 0s to {}", format_duration(kMaxJitter)));
  }
  if (schedule.max_runs < 0) {
    return invalid("max_runs", fmt::format("max_runs {}: must not be negative; 0 is no limit",
                                           schedule.max_runs));
  }
  return {};
}

Result<void> check_continuous(const Schedule& schedule) {
  if (!schedule.continuous) return {};
  const Continuous& timer = *schedule.continuous;
  if (schedule.at) {
    return invalid("continuous", "continuous: needs a fallback schedule, cron or every, not at");
  }
  if (timer.margin < Duration(0)) {
    return invalid("continuous.margin", "continuous.margin: must not be negative");
  }
  if (timer.handoff < Duration(0)) {
    return invalid("continuous.handoff",
                   "continuous.handoff: must not be negative; 0 means no "
                   "standby");
  }
  const Duration least =
      timer.margin > kForever - timer.handoff ? kForever : timer.margin + timer.handoff;
  if (timer.timeout <= least) {
    return invalid("continuous.timeout",
                   fmt::format("continuous.timeout: must be more than margin and handoff together, "
                               "which are {}",
                               format_duration(least)));
  }
  if (schedule.overlap != Overlap::skip) {
    return invalid("overlap", fmt::format("overlap {}: must be skip for a continuous timer, which "
                                          "starts its standby itself",
                                          to_string(schedule.overlap)));
  }
  return {};
}

NextTick next_at(const Ticks& ticks, const Schedule& schedule, std::optional<WallTime> found) {
  if (!found) return {};
  return {*found, *found + jitter_of(schedule), ticks.note(*found)};
}

NextTick next_of(const Ticks& ticks, const Schedule& schedule, WallTime t) {
  return next_at(ticks, schedule, ticks.next_after(t));
}

}  // namespace

Result<void> validate(const Schedule& schedule) {
  MS_TRY(check_name("name", schedule.name));
  MS_TRY(check_template(schedule.job));
  MS_TRY(check_when(schedule));
  MS_TRY(check_policies(schedule));
  return check_continuous(schedule);
}

std::string schedule_problem(const Schedule& schedule) {
  return schedule.cron.empty() ? "" : Ticks(schedule).problem();
}

NextTick next_tick(const Schedule& schedule, WallTime t) {
  return next_of(Ticks(schedule), schedule, t);
}

NextTick moved_tick(const Schedule& schedule, WallTime planned, const TimeZone& old, WallTime now) {
  const Ticks ticks(schedule);
  return next_at(ticks, schedule, ticks.moved(planned, old, now));
}

NextTick settled_tick(const Schedule& schedule, WallTime planned, WallTime fired, WallTime now) {
  const Ticks ticks(schedule);
  return next_at(ticks, schedule, ticks.settled(planned, fired, now));
}

NextTick first_tick(const Schedule& schedule, WallTime now) {
  if (schedule.at) return {*schedule.at, *schedule.at + jitter_of(schedule), ""};
  return next_tick(schedule, now);
}

std::vector<PreviewTick> preview(const Schedule& schedule, WallTime from, int count) {
  const Ticks ticks(schedule);
  std::vector<PreviewTick> out;
  for (NextTick tick = next_of(ticks, schedule, from);
       tick.nominal != WallTime::never() && static_cast<int>(out.size()) < count;
       tick = next_of(ticks, schedule, tick.nominal)) {
    out.push_back({tick.nominal, tick.fires_at, tick.note});
  }
  return out;
}

TickRange ticks_between(const Schedule& schedule, WallTime from, WallTime to, int limit) {
  const Ticks ticks(schedule);
  TickRange range;
  std::optional<WallTime> tick = ticks.next_after(from - Duration(1));
  for (; tick && *tick < to; tick = ticks.next_after(*tick)) {
    if (static_cast<int>(range.ticks.size()) >= limit) {
      range.next = tick;
      break;
    }
    range.ticks.push_back({.nominal = *tick, .note = ticks.note(*tick)});
  }
  return range;
}

Duration jitter_of(const Schedule& schedule) {
  if (schedule.jitter <= Duration(0)) return Duration(0);
  std::uint64_t hash = fnv1a(schedule.name);  // then mixed: names often differ only at their end
  hash = (hash ^ (hash >> 31)) * 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 29;
  const auto most = static_cast<std::uint64_t>(schedule.jitter.count());
  return Duration(static_cast<std::int64_t>(hash % (most + 1)));
}

std::string tick_headers(const Schedule& schedule, WallTime nominal, bool past_due) {
  std::string own =
      fmt::format(R"("mainspring-schedule":"{}","mainspring-nominal":"{}"{})", schedule.name,
                  format_wall_time(nominal), past_due ? R"(,"mainspring-past-due":"true")" : "");
  const std::string& headers = schedule.job.headers;
  const std::size_t open = headers.find('{');
  if (open == std::string::npos) return "{" + own + "}";
  const std::size_t first = headers.find_first_not_of(" \t\r\n", open + 1);
  if (first != std::string::npos && headers[first] != '}') own += ',';
  return headers.substr(0, open + 1) + own + headers.substr(open + 1);
}

}  // namespace mainspring
