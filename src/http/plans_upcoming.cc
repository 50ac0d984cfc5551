// The plans of upcoming ticks, and of changes to many schedules.
#include <algorithm>

#include "api/schedule_shapes.h"
#include "broker/broker.h"
#include "http/plans.h"
#include "model/queue_pattern.h"

namespace mainspring::http {
namespace {

constexpr int kDefaultUpcomingTicks = 1000;
constexpr Duration kDefaultUpcoming = std::chrono::hours(24);

Result<Duration> upcoming_within(const Request& request) {
  const auto* text = query_value(request, "within");
  if (text == nullptr) return kDefaultUpcoming;
  auto within = parse_duration(*text);
  if (!within) return invalid("within", "within: " + within.error().message);
  return within;
}

// On a reader thread, which waits for the commits.
Plan plan_schedule_set(const Request& request, Services& services, bool paused) {
  auto asked = decode_schedule_set(request.body);
  if (!asked) return error_reply(asked.error());
  PauseSchedules pause{.which = std::move(asked->which),
                       .paused = paused,
                       .reason = std::move(asked->reason),
                       .within = request.caller->within(Verb::schedule)};
  Audit audit = audit_of(request, "");
  audit.action = paused ? "pause_schedule" : "resume_schedule";
  return DoRead{[&services, pause = std::move(pause), audit = std::move(audit)] {
    auto changes = services.broker.pause_schedules(pause, [&](const std::string& name) {
      Audit one = audit;
      one.object = "schedule/" + name;
      return one;
    });
    if (!changes) return error_reply(changes.error());
    Reply reply;
    encode_schedule_changes(*changes, reply.body);
    return reply;
  }};
}

// Those whose pools have a queue that the caller may read.
std::vector<PoolWindow> visible_windows(const ScalePools& pools, const Within& visible,
                                        const Upcoming& upcoming) {
  std::vector<PoolWindow> out;
  for (const auto& [name, pool] : pools) {
    const std::vector<std::string> all{"*"};
    const auto& queues = pool.queues.empty() ? all : pool.queues;
    const bool shown = std::any_of(queues.begin(), queues.end(), [&](const std::string& queue) {
      return is_pattern(queue) ? !allowed_part(queue, visible).empty() : visible.has(queue);
    });
    if (!shown) continue;
    const auto windows = pool_windows(pool, upcoming.from, upcoming.to);
    out.insert(out.end(), windows.begin(), windows.end());
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  if (out.size() > kMaxUpcomingWindows) out.resize(kMaxUpcomingWindows);
  return out;
}

}  // namespace

Plan plan_upcoming(const Request& request, Services& services) {
  const auto within = upcoming_within(request);
  if (!within) return error_reply(within.error());
  const auto limit = query_integer(request, "limit", kDefaultUpcomingTicks, kMaxUpcomingTicks);
  if (!limit) return error_reply(limit.error());
  return DoRead{
      [&services, within = *within, limit = *limit, visible = request.caller->within(Verb::read)] {
        auto upcoming = services.broker.upcoming(within, limit, visible);
        if (!upcoming) return error_reply(upcoming.error());
        UpcomingAnswer answer{std::move(*upcoming), {}};
        answer.windows = visible_windows(services.options.scale_pools, visible, answer);
        Reply reply;
        encode_upcoming(answer, reply.body);
        return reply;
      }};
}

Plan plan_pause_schedules(const Request& request, Services& services) {
  return plan_schedule_set(request, services, true);
}

Plan plan_resume_schedules(const Request& request, Services& services) {
  return plan_schedule_set(request, services, false);
}

}  // namespace mainspring::http
