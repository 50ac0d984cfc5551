// When ticks are, and what happens to those that are due.
#include "model/schedule.h"

#include <fmt/format.h>

namespace mainspring {

Result<void> validate(const Schedule& schedule) {
  MS_TRY(check_name("name", schedule.name));
  return validate(schedule.job, "job.");
}

NextTick next_tick(const Schedule& schedule, WallTime t) {
  const std::int64_t every = schedule.every.count();
  if (every <= 0) return {};
  const WallTime nominal = WallTime::from_us((t.us() / every + 1) * every);
  return {.nominal = nominal, .fires_at = nominal, .note = ""};
}
NextTick first_tick(const Schedule& schedule, WallTime now) {
  return next_tick(schedule, now);
}

std::vector<PreviewTick> preview(const Schedule& schedule, WallTime from, int count) {
  std::vector<PreviewTick> out;
  for (NextTick tick = next_tick(schedule, from); count-- > 0;
       tick = next_tick(schedule, tick.nominal))
    out.push_back({tick.nominal, tick.fires_at, tick.note});
  return out;
}
TickRange ticks_between(const Schedule&, WallTime, WallTime, int) {
  return {};
}

FiringPlan plan_firing(const ScheduleInfo& info, WallTime now) {
  FiringPlan plan;
  plan.ticks.push_back({.nominal = info.next});
  plan.next = next_tick(info.schedule, now);
  return plan;
}

Duration jitter_of(const Schedule&) {
  return Duration(0);
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
